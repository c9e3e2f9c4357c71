update holdfast_lease
set cancel_requested_at = coalesce(cancel_requested_at, :now)
where job_id in (select value from json_each(:ids))
returning job_id, worker_id, worker_id in (select id from holdfast_worker)
