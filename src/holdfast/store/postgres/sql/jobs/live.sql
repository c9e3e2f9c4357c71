-- $1 ids
-- uses: live_columns
select {{live_columns}}
from unnest($1::uuid[]) as asked (id)
cross join lateral (
    select * from {{schema}}.place where place.job_id = asked.id and not place.ended limit 1
) as place
join lateral (select policy from {{schema}}.job where job.id = asked.id limit 1) as job on true
