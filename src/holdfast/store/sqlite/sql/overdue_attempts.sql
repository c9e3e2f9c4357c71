select
    l.job_id, 'running', l.queue, l.task, j.policy, l.attempts, l.crashes, l.fence, l.worker_id,
    l.cancel_requested_at is not null
from holdfast_lease as l
cross join holdfast_job as j on j.id = l.job_id
where l.job_id > ?2 and l.timeout_at < ?1
order by l.job_id
limit ?3
