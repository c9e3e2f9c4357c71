-- name: held
select 1 from holdfast_lease as l
join holdfast_node as n on n.job_id = l.job_id
where l.job_id = ? and l.fence = ? and n.flow_id = ?

-- name: state
select state, epoch from holdfast_flow where id = ?

-- name: grown before
select 1 from holdfast_flow_graph where flow_id = ? and graph = ?

-- name: names
select name, job_id from holdfast_node where flow_id = ? and name in (select value from json_each(?))

-- name: blocked
-- those of these jobs that are blocked nodes of this flow
select b.job_id
from json_each(?) as wanted
cross join holdfast_blocked as b on b.job_id = wanted.value
cross join holdfast_node as n on n.job_id = b.job_id and n.flow_id = ?

-- name: skipped
-- those of these jobs that are nodes of this flow which were skipped for no bad end
select o.job_id
from json_each(?) as wanted
cross join holdfast_outcome as o on o.job_id = wanted.value and o.state = 'skipped'
cross join holdfast_node as n on n.job_id = o.job_id and n.flow_id = ? and not n.is_bad

-- name: grown
update holdfast_flow set total = total + :nodes, open = open + :nodes, epoch = epoch + 1 where id = :id
returning epoch

-- name: graph
insert into holdfast_flow_graph (flow_id, n, graph)
select :flow_id, coalesce(max(n), 0) + 1, :graph
from holdfast_flow_graph
where flow_id = :flow_id
