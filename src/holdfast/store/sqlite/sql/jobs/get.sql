-- name: jobs
with p as materialized (
    select * from holdfast_place where job_id in (select value from json_each(?))
)
select
    j.id, j.task, j.created_at, j.unique_key,
    p.state, p.queue, p.priority, p.attempts, p.crashes, p.fence, p.ties,
    p.cancel_requested_at, p.worker_id, p.claimed_at, p.due_at, coalesce(d.at, p.deadline_at),
    p.finished_at, p.expires_at, p.reason, p.result,
    g.fraction, g.message, g.checkpoint, g.at,
    {{body of j}}
from p
cross join holdfast_job as j on j.id = p.job_id
left join holdfast_deadline as d on d.job_id = p.job_id
left join holdfast_progress as g on g.job_id = p.job_id

-- name: errors
select e.job_id, e.attempt, e.kind, e.message, e.traceback, e.at, e.fingerprint
from json_each(?) as wanted
cross join holdfast_happening as e on e.job_id = wanted.value and e.kind is not null
order by e.job_id, e.n

-- name: newest errors
select e.job_id, e.attempt, e.kind, e.message, e.traceback, e.at, e.fingerprint
from json_each(?) as wanted
cross join holdfast_happening as e on e.job_id = wanted.value
where e.n = (select max(n) from holdfast_happening where job_id = wanted.value and kind is not null)
