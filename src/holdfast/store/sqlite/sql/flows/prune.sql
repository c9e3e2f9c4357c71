-- name: over
select id from holdfast_flow where expires_at <= ? order by expires_at limit ?

-- name: jobs
select o.job_id, j.unique_key, o.queue, o.task, o.state
from holdfast_node as n
cross join holdfast_outcome as o on o.job_id = n.job_id
left join holdfast_job as j on j.id = o.job_id
where n.flow_id = ?

-- name: nodes
delete from holdfast_node where flow_id = ?

-- name: gates
delete from holdfast_gate where flow_id = ?

-- name: graph
delete from holdfast_flow_graph where flow_id = ?

-- name: errands
delete from holdfast_errand where flow_id = ?

-- name: flow
delete from holdfast_flow where id = ?
