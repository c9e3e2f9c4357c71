-- $1 keys
-- Which jobs hold them, and where these jobs are. Runs in the transaction that has locked the keys.
select unique_key.key, unique_key.job_id::text, place.state,
    coalesce(place.state = any (unique_key.states), false)
from unnest($1::text[]) as asked (key)
join {{schema}}.unique_key on unique_key.key = asked.key
left join {{schema}}.place on place.job_id = unique_key.job_id
