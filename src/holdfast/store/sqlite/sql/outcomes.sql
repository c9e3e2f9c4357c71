select o.job_id, o.state, o.result, o.reason
from json_each(?) as wanted
cross join outcome as o on o.job_id = wanted.value
