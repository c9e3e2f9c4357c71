select {{parts/flow_columns}}
from json_each(?) as wanted
cross join holdfast_flow as f on f.id = wanted.value
order by wanted.key
