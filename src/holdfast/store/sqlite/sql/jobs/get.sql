-- name: jobs
select
    j.id, j.task, j.created_at, j.policy, j.tags, j.headers, j.unique_key, j.args,
    case
        when r.job_id is not null then 'ready'
        when l.job_id is not null then 'running'
        when s.job_id is not null then 'scheduled'
        when u.job_id is not null then 'suspended'
        else o.state
    end,
    coalesce(r.queue, l.queue, s.queue, u.queue, o.queue),
    coalesce(r.priority, l.priority, s.priority, u.priority, o.priority),
    coalesce(r.attempts, l.attempts, s.attempts, u.attempts, o.attempts),
    coalesce(r.crashes, l.crashes, s.crashes, u.crashes, o.crashes),
    coalesce(r.fence, l.fence, s.fence, u.fence, o.fence),
    coalesce(l.cancel_requested_at, o.cancel_requested_at),
    coalesce(l.worker_id, o.worker_id),
    coalesce(l.claimed_at, o.claimed_at),
    coalesce(s.due_at, u.wake_at),
    coalesce(d.at, o.deadline_at),
    o.finished_at,
    o.expires_at,
    coalesce(s.reason, u.reason, o.reason),
    o.result,
    p.fraction, p.message, p.checkpoint, p.at
from json_each(?) as wanted
cross join holdfast_job as j on j.id = wanted.value
left join holdfast_ready as r on r.job_id = j.id
left join holdfast_lease as l on l.job_id = j.id
left join holdfast_scheduled as s on s.job_id = j.id
left join holdfast_suspended as u on u.job_id = j.id
left join holdfast_outcome as o on o.job_id = j.id
left join holdfast_deadline as d on d.job_id = j.id
left join holdfast_progress as p on p.job_id = j.id
where coalesce(r.job_id, l.job_id, s.job_id, u.job_id, o.job_id) is not null

-- name: errors
select e.job_id, e.attempt, e.kind, e.message, e.traceback, e.at
from json_each(?) as wanted
cross join holdfast_error as e on e.job_id = wanted.value
order by e.job_id, e.n

-- name: newest errors
select e.job_id, e.attempt, e.kind, e.message, e.traceback, e.at
from json_each(?) as wanted
cross join holdfast_error as e on e.job_id = wanted.value
where e.n = (select max(n) from holdfast_error where job_id = wanted.value)
