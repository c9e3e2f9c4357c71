-- name: whole
select n.job_id, n.flow_id, f.name, f.state, n.name, n.inputs
from holdfast_node as n
join holdfast_flow as f on f.id = n.flow_id
where n.job_id in (select value from json_each(?))

-- name: facts
select n.job_id, n.inputs, f.state
from json_each(?) as claimed
cross join holdfast_node as n on n.job_id = claimed.value
cross join holdfast_flow as f on f.id = n.flow_id
