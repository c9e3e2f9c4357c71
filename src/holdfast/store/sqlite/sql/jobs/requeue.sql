-- name: find
select
    o.job_id, o.queue, o.priority, o.seq, o.task, o.attempts, o.crashes, o.fence, o.ties,
    o.state, j.unique_key, j.unique_states
from json_each(?) as wanted
cross join holdfast_outcome as o on o.job_id = wanted.value and not o.ties & 1 -- no nodes
    and not ({{parts/is_undone}}
    )
cross join holdfast_job as j on j.id = o.job_id

-- name: drop outcome
delete from holdfast_outcome where job_id = ?

-- name: drop deadline
delete from holdfast_deadline where job_id = ?
