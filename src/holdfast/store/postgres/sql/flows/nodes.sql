-- $1 flow   $2 limit   $3 behind this name
select node.name, node.job_id::text, place.state, node.is_sink, place.task, place.queue,
    place.attempts, place.reason, place.finished_at
from (
    select name, job_id, is_sink from {{schema}}.node
    where node.flow_id = $1::uuid and node.name > $3::text
    order by node.name limit $2::int
) as node
cross join lateral (
    select * from {{schema}}.place where place.job_id = node.job_id limit 1
) as place
order by node.name
