-- The nodes of elements of a map. Their bodies and places are written by `jobs/insert`.
insert or fail into holdfast_node (job_id, flow_id, name, is_sink, edges)
select e.value, :flow, :map || '[' || (:first + e.key) || ']', :is_sink, :edges
from json_each(:ids) as e
