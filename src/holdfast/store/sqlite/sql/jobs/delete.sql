select o.job_id, j.unique_key, o.ties, o.queue, o.task, o.state
from json_each(?) as wanted
cross join holdfast_outcome as o on o.job_id = wanted.value and not o.ties & 1 -- no nodes
left join holdfast_job as j on j.id = o.job_id
where not ({{parts/owes_undo}}
)
