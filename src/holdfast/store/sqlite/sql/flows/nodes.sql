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
select downstream, n, upstream, wants
from holdfast_edge
where downstream in (select value from json_each(?))
order by upstream
