select
    l.job_id, 'running', l.queue, l.task, j.policy, l.attempts, l.crashes, l.fence, l.worker_id,
    l.cancel_requested_at is not null, l.ahead, l.claimed_at, l.ties
from holdfast_lease as l
cross join holdfast_job as j on j.id = l.job_id
left join holdfast_worker as w on w.id = l.worker_id
where l.job_id > :after
    and l.timeout_at + :slack < :now
    and (w.id is null or l.timeout_at + :slack < w.written_until)
order by l.job_id
limit :limit
