-- $1 flow   $2 ids of jobs
-- Those of them that are nodes of this flow which were skipped for no bad end.
select asked.id::text as job_id
from unnest($2::uuid[]) as asked (id)
cross join lateral (
    select from {{schema}}.outcome where outcome.job_id = asked.id and outcome.state = 'skipped' limit 1
) as ended
cross join lateral (
    select from {{schema}}.node
    where node.job_id = asked.id and node.flow_id = $1::uuid and not node.is_bad limit 1
) as own
