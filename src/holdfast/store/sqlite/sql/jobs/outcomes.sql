select o.job_id, o.state, o.result, o.reason, o.fingerprint
from json_each(?) as wanted
cross join holdfast_outcome as o on o.job_id = wanted.value
