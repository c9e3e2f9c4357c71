-- Elements of a map differ in their arguments alone: a statement each writes their bodies, places and nodes.

-- name: bodies
insert or fail into holdfast_job (id, task, created_at, {{shared}}, args)
select e.key, :task, :now, {{shared named}}, e.value from json_each(:args) as e

-- name: line up
insert or fail into holdfast_ready (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    ready_at
)
select e.value, :queue, :priority, :arrival + e.key, :task, 0, 0, 0, :ties, :now
from json_each(:ids) as e

-- name: nodes
insert or fail into holdfast_node (job_id, flow_id, name, is_sink, edges)
select e.value, :flow, :map || '[' || (:first + e.key) || ']', :is_sink, :edges
from json_each(:ids) as e
