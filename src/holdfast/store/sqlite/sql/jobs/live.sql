select
    j.id,
    case
        when r.job_id is not null then 'ready'
        when l.job_id is not null then 'running'
        when s.job_id is not null then 'scheduled'
        else 'suspended'
    end,
    coalesce(r.queue, l.queue, s.queue, u.queue),
    j.task,
    j.policy,
    coalesce(r.attempts, l.attempts, s.attempts, u.attempts),
    coalesce(r.crashes, l.crashes, s.crashes, u.crashes),
    coalesce(r.fence, l.fence, s.fence, u.fence),
    l.worker_id,
    l.cancel_requested_at is not null,
    coalesce(l.ahead, 0),
    l.claimed_at
from json_each(?) as wanted
cross join holdfast_job as j on j.id = wanted.value
left join holdfast_ready as r on r.job_id = j.id
left join holdfast_lease as l on l.job_id = j.id
left join holdfast_scheduled as s on s.job_id = j.id
left join holdfast_suspended as u on u.job_id = j.id
where coalesce(r.job_id, l.job_id, s.job_id, u.job_id) is not null
