-- name: flow
insert into flow (id, open) values (?, ?)
-- name: job
insert into job (id, args) values (?, ?)
-- name: node
insert into node (id, flow_id) values (?, ?)
-- name: ready
insert into ready (id) values (?)
-- name: blocked
insert into blocked (id, waits) values (?, ?)
-- name: edge
insert into edge (upstream, downstream) values (?, ?)
