-- name: known
select id, name from holdfast_flow where id in (select value from json_each(?))

-- name: holder
select id from holdfast_flow where unique_key = ? and finished_at is null

-- name: hold parent
update holdfast_lease set ties = ties | ? where job_id = ? and fence = ?

-- name: flow
insert into holdfast_flow (
    id, name, state, total, open, unique_key, tags, parent, keep, created_at
)
values (?, ?, 'running', ?, ?, ?, ?, ?, ?, ?)

-- name: graph
insert into holdfast_flow_graph (flow_id, n, graph) values (?, ?, ?)

-- name: node
insert into holdfast_node (job_id, flow_id, name, is_sink, delay, inputs, edges) values (?, ?, ?, ?, ?, ?, ?)

-- name: gate
insert into holdfast_gate (job_id, n, flow_id, need, total, losers, won, lost, is_bad)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: edges
-- Add edges to those that a node has: members of a JSON object.
update holdfast_node
set edges = '{' || iif(edges is null, '', substr(edges, 2, length(edges) - 2) || ',') || ? || '}'
where job_id = ?

-- name: drop edges
update holdfast_node
set edges = (
    select '{' || group_concat('"' || e.key || '":' || e.value) || '}'
    from json_each(holdfast_node.edges) as e
    where e.key not in (select value from json_each(:jobs))
)
where flow_id = :flow_id
    and exists (
        select 1 from json_each(holdfast_node.edges) as e
        where e.key in (select value from json_each(:jobs))
    )

-- name: ended
-- Of a node that is not settled all edges are counted later, those that are written now among them.
select o.job_id, o.state
from json_each(?) as wanted
cross join holdfast_outcome as o on o.job_id = wanted.value
cross join holdfast_node as n on n.job_id = o.job_id and not n.is_unsettled
