-- name: over
-- the parent of a flow is ended from what the flow has come to
select id from holdfast_flow as f
where f.expires_at <= ?
    and not exists (select 1 from holdfast_errand as e where e.flow_id = f.id and e.kind = 'parent')
order by f.expires_at
limit ?

-- name: jobs
select o.job_id, j.unique_key, o.ties, o.queue, o.task, o.state
from holdfast_node as n
cross join holdfast_outcome as o on o.job_id = n.job_id
left join holdfast_job as j on j.id = o.job_id
where n.flow_id = ?

-- name: gates
delete from holdfast_gate where job_id in (select job_id from holdfast_node where flow_id = ?)

-- name: nodes
delete from holdfast_node where flow_id = ?

-- name: graph
delete from holdfast_flow_graph where flow_id = ?

-- name: errands
delete from holdfast_errand where flow_id = ?

-- name: flow
delete from holdfast_flow where id = ?
