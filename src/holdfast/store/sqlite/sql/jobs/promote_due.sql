-- name: scheduled
select job_id, queue, priority, seq, task, attempts, crashes, fence, due_at
from holdfast_scheduled
where due_at <= ?
order by due_at, job_id
limit ?

-- name: suspended
select job_id, queue, priority, seq, task, attempts, crashes, fence, wake_at
from holdfast_suspended
where wake_at <= ?
order by wake_at, job_id
limit ?

-- name: next
select min(at)
from (
    select min(due_at) as at from holdfast_scheduled
    union all
    select min(wake_at) from holdfast_suspended where wake_at is not null
)
