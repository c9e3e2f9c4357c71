-- name: nodes
select n.name, n.job_id, p.state, n.is_sink, p.task, p.queue, p.attempts, p.reason, p.finished_at
from holdfast_node as n
cross join holdfast_place as p on p.job_id = n.job_id
where n.flow_id = :flow and n.name > :after
order by n.name
limit :limit

-- name: gates
select job_id, n, need, total, won, lost, losers
from holdfast_gate
where job_id in (select value from json_each(?))
order by job_id, n

-- name: edges
-- What blocked nodes still wait for: the edges of nodes that are live, or whose ends are not counted yet.
select e.key, e.value >> 5, n.job_id, e.value & 31
from holdfast_node as n
cross join json_each(n.edges) as e
where n.flow_id = :flow
    and e.key in (select value from json_each(:ids))
    and (n.is_unsettled or not exists (select 1 from holdfast_outcome as o where o.job_id = n.job_id))
order by n.job_id
