-- name: find running
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts, p.crashes, p.fence,
    d.at, p.worker_id, p.claimed_at, p.cancel_requested_at, j.policy
from json_each(?) as wanted
cross join holdfast_lease as p on p.job_id = wanted.value
left join holdfast_deadline as d on d.job_id = p.job_id
left join holdfast_job as j on j.id = p.job_id and p.cancel_requested_at is not null

-- name: drop running
delete from holdfast_lease where job_id in (select value from json_each(?))

-- name: find ready
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts, p.crashes, p.fence,
    d.at, null, null, null, null
from json_each(?) as wanted
cross join holdfast_ready as p on p.job_id = wanted.value
left join holdfast_deadline as d on d.job_id = p.job_id

-- name: drop ready
delete from holdfast_ready where job_id in (select value from json_each(?))

-- name: find scheduled
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts, p.crashes, p.fence,
    d.at, null, null, null, null
from json_each(?) as wanted
cross join holdfast_scheduled as p on p.job_id = wanted.value
left join holdfast_deadline as d on d.job_id = p.job_id

-- name: drop scheduled
delete from holdfast_scheduled where job_id in (select value from json_each(?))

-- name: find suspended
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts, p.crashes, p.fence,
    d.at, null, null, null, null
from json_each(?) as wanted
cross join holdfast_suspended as p on p.job_id = wanted.value
left join holdfast_deadline as d on d.job_id = p.job_id

-- name: drop suspended
delete from holdfast_suspended where job_id in (select value from json_each(?))

-- name: trusted
select l.job_id
from json_each(?) as wanted
cross join holdfast_lease as l on l.job_id = wanted.value
cross join holdfast_worker as w on w.id = l.worker_id
where w.expires_at > ?

-- name: stands
select 1 from holdfast_worker where id = ? and alive_since = ? and expires_at > ?

-- name: end
insert into holdfast_outcome (
    job_id, queue, priority, seq, task, attempts, crashes, fence,
    deadline_at, worker_id, claimed_at, cancel_requested_at,
    state, finished_at, expires_at, reason, result
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: schedule
insert into holdfast_scheduled (
    job_id, queue, priority, seq, task, attempts, crashes, fence,
    reason, due_at
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: ready
insert into holdfast_ready (
    job_id, queue, priority, seq, task, attempts, crashes, fence,
    ready_at
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: suspend
insert into holdfast_suspended (
    job_id, queue, priority, seq, task, attempts, crashes, fence,
    reason, wake_at
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: drop deadline
delete from holdfast_deadline where job_id = ?

-- name: append error
insert into holdfast_error (job_id, n, attempt, at, kind, message, traceback)
select ?1, coalesce(max(n), 0) + 1, ?2, ?3, ?4, ?5, ?6 from holdfast_error where job_id = ?1

-- name: trim errors
delete from holdfast_error
where job_id = ?1
    and n <= (select n from holdfast_error where job_id = ?1 order by n desc limit 1 offset ?2)

-- name: retentions
select name, retain_succeeded, retain_failed, retain_other
from holdfast_queue
where retain_succeeded is not null or retain_failed is not null or retain_other is not null
