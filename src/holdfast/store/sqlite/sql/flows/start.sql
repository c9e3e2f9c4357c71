-- name: known
select id, name from holdfast_flow where id = ?

-- name: holder
select id from holdfast_flow where unique_key = ? and finished_at is null

-- name: hold parent
update holdfast_lease set ties = ties | ? where job_id = ? and fence = ?

-- name: flow
insert into holdfast_flow (
    id, name, state, total, open, unique_key, tags, parent, keep, created_at
)
values (:id, :name, 'running', :total, :total, :unique_key, :tags, :parent, :keep, :now)

-- name: graph
insert into holdfast_flow_graph (flow_id, n, graph)
select :flow_id, coalesce(max(n), 0) + 1, :graph
from holdfast_flow_graph
where flow_id = :flow_id

-- name: node
insert into holdfast_node (job_id, flow_id, name, is_sink, delay, inputs) values (?, ?, ?, ?, ?, ?)

-- name: next gate
select coalesce(max(n), -1) + 1 from holdfast_gate where job_id = ?

-- name: gate
insert into holdfast_gate (job_id, n, flow_id, need, total, losers) values (?, ?, ?, ?, ?, ?)

-- name: edge
insert into holdfast_edge (upstream, downstream, n, wants) values (?, ?, ?, ?)
