-- name: scheduled
select job_id, queue, priority, seq, task, attempts, crashes, fence
from holdfast_scheduled
where due_at <= ?1 and job_id in (select value from json_each(?2))
order by due_at

-- name: suspended
select job_id, queue, priority, seq, task, attempts, crashes, fence
from holdfast_suspended
where wake_at <= ?1 and job_id in (select value from json_each(?2))
order by wake_at
