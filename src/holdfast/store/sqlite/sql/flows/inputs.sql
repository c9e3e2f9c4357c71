select n.job_id, n.flow_id, f.name, f.state, n.name, n.inputs
from holdfast_node as n
join holdfast_flow as f on f.id = n.flow_id
where n.job_id in (select value from json_each(?))
