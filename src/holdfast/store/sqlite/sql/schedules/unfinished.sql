select
    s.scope,
    s.job_id,
    case
        when r.job_id is not null then 'ready'
        when l.job_id is not null then 'running'
        when d.job_id is not null then 'scheduled'
        else 'suspended'
    end,
    coalesce(r.queue, l.queue, d.queue, u.queue),
    j.task,
    j.policy,
    coalesce(r.attempts, l.attempts, d.attempts, u.attempts),
    coalesce(r.crashes, l.crashes, d.crashes, u.crashes),
    coalesce(r.fence, l.fence, d.fence, u.fence),
    l.worker_id,
    l.cancel_requested_at is not null,
    coalesce(l.ahead, 0),
    l.claimed_at
from json_each(?2) as wanted
cross join holdfast_started as s on s.schedule = ?1 and s.scope = wanted.value
cross join holdfast_job as j on j.id = s.job_id
left join holdfast_ready as r on r.job_id = s.job_id
left join holdfast_lease as l on l.job_id = s.job_id
left join holdfast_scheduled as d on d.job_id = s.job_id
left join holdfast_suspended as u on u.job_id = s.job_id
where coalesce(r.job_id, l.job_id, d.job_id, u.job_id) is not null
order by s.scope, s.at
