update holdfast_lease
set cancel_requested_at = coalesce(cancel_requested_at, ?2)
where job_id in (select value from json_each(?1))
returning job_id, worker_id, worker_id in (select id from holdfast_worker)
