-- $1 flow   $2 ids of jobs
-- Those of them that are blocked nodes of this flow.
select asked.id::text as job_id
from unnest($2::uuid[]) as asked (id)
cross join lateral (
    select from {{schema}}.blocked where blocked.job_id = asked.id limit 1
) as waits
cross join lateral (
    select from {{schema}}.node where node.job_id = asked.id and node.flow_id = $1::uuid limit 1
) as own
