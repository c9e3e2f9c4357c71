-- name: ready
insert into holdfast_ready (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    ready_at
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: scheduled
insert into holdfast_scheduled (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    reason, due_at
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: suspended
insert into holdfast_suspended (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    reason, wake_at
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
