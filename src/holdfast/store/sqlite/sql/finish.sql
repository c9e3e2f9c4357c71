-- name: find running
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts, p.crashes, p.fence,
    d.at, p.worker_id, p.claimed_at, p.cancel_requested_at, j.policy
from json_each(?) as wanted
cross join lease as p on p.job_id = wanted.value
left join deadline as d on d.job_id = p.job_id
left join job as j on j.id = p.job_id and p.cancel_requested_at is not null

-- name: drop running
delete from lease where job_id in (select value from json_each(?))

-- name: find ready
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts, p.crashes, p.fence,
    d.at, null, null, null, null
from json_each(?) as wanted
cross join ready as p on p.job_id = wanted.value
left join deadline as d on d.job_id = p.job_id

-- name: drop ready
delete from ready where job_id in (select value from json_each(?))

-- name: find scheduled
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts, p.crashes, p.fence,
    d.at, null, null, null, null
from json_each(?) as wanted
cross join scheduled as p on p.job_id = wanted.value
left join deadline as d on d.job_id = p.job_id

-- name: drop scheduled
delete from scheduled where job_id in (select value from json_each(?))

-- name: find suspended
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts, p.crashes, p.fence,
    d.at, null, null, null, null
from json_each(?) as wanted
cross join suspended as p on p.job_id = wanted.value
left join deadline as d on d.job_id = p.job_id

-- name: drop suspended
delete from suspended where job_id in (select value from json_each(?))

-- name: trusted
select l.job_id
from json_each(?) as wanted
cross join lease as l on l.job_id = wanted.value
cross join worker as w on w.id = l.worker_id
where w.expires_at > ?

-- name: end
insert into outcome (
    job_id, queue, priority, seq, task, attempts, crashes, fence,
    deadline_at, worker_id, claimed_at, cancel_requested_at,
    state, finished_at, expires_at, reason, result
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: schedule
insert into scheduled (
    job_id, queue, priority, seq, task, attempts, crashes, fence,
    reason, due_at
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: ready
insert into ready (
    job_id, queue, priority, seq, task, attempts, crashes, fence,
    ready_at
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: suspend
insert into suspended (
    job_id, queue, priority, seq, task, attempts, crashes, fence,
    reason, wake_at
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: drop deadline
delete from deadline where job_id = ?

-- name: append error
insert into error (job_id, n, attempt, at, kind, message, traceback)
select ?1, coalesce(max(n), 0) + 1, ?2, ?3, ?4, ?5, ?6 from error where job_id = ?1

-- name: trim errors
delete from error
where job_id = ?1
    and n <= (select n from error where job_id = ?1 order by n desc limit 1 offset ?2)

-- name: retentions
select name, retain_succeeded, retain_failed, retain_other
from queue
where retain_succeeded is not null or retain_failed is not null or retain_other is not null
