-- name: try
savepoint successes

-- name: undo
rollback to successes

-- name: tried
release successes

-- name: copy
insert into holdfast_outcome (
    job_id, queue, priority, seq, task, attempts, crashes, fence,
    deadline_at, worker_id, claimed_at, cancel_requested_at,
    state, finished_at, expires_at, result
)
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts + 1, p.crashes, p.fence,
    d.at, p.worker_id, p.claimed_at, p.cancel_requested_at,
    'succeeded', ?2,
    iif(
        q.retain_succeeded is null,
        ?3,
        min(?5, ?2 + cast(round(q.retain_succeeded * 1000000) as integer))
    ),
    ended.value
from json_each(?1) as ended
cross join holdfast_lease as p on p.job_id = ended.key and p.fence = ?4
left join holdfast_deadline as d on d.job_id = p.job_id
left join holdfast_queue as q on q.name = p.queue

-- name: leave
delete from holdfast_lease where job_id in (select value from json_each(?))

-- name: any deadline
select exists (select 1 from holdfast_deadline)

-- name: drop deadlines
delete from holdfast_deadline where job_id in (select value from json_each(?))
