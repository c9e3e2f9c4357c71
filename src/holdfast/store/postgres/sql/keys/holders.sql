-- $1 now   $2 keys
-- Which jobs hold them, and where these jobs are. Runs in the transaction that has locked the keys.
select unique_key.key, unique_key.job_id::text, place.state, place.ties,
    place.state is not null
        and coalesce(place.state = any (unique_key.states) or unique_key.until > {{now}}, false)
from unnest($2::text[]) as asked (key)
join {{schema}}.unique_key on unique_key.key = asked.key
left join {{schema}}.place on place.job_id = unique_key.job_id
