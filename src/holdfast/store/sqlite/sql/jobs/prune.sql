select o.job_id, j.unique_key, o.ties, o.queue, o.task, o.state
from holdfast_outcome as o
left join holdfast_job as j on j.id = o.job_id
where o.expires_at <= ? and not ({{parts/owes_undo}}
)
order by o.expires_at
limit ?
