-- $1 ids
-- Where these jobs are; one probe for each job and place.
select place.job_id, place.state, place.fence
from unnest($1::uuid[]) as asked (id)
cross join lateral (
    select job_id, state, fence from {{schema}}.place where place.job_id = asked.id limit 1
) as place
