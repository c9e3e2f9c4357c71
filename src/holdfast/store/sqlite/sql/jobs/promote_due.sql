-- name: due
-- `due_at` is selected because only then SQLite reads the places in order and sorts nothing
select due_at, state, job_id, queue, priority, seq, task, attempts, crashes, fence, ties
from holdfast_place
where due_at <= ?
order by due_at, job_id
limit ?

-- name: next
-- each minimum is one look at an index, which a view would not use
select min(at)
from (
    select min(due_at) as at from holdfast_scheduled
    union all
    select min(wake_at) from holdfast_suspended where wake_at is not null
)
