-- name: asked
select
    job_id, attempts, fence, worker_id, claimed_at, cancel_requested_at is null,
    worker_id in (select id from holdfast_worker)
from holdfast_lease
where job_id in (select value from json_each(?))

-- name: mark
update holdfast_lease
set cancel_requested_at = ?
where cancel_requested_at is null and job_id in (select value from json_each(?))
