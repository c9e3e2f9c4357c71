-- name: ready
update holdfast_ready set priority = ?2 where job_id in (select value from json_each(?1)) returning job_id

-- name: scheduled
update holdfast_scheduled set priority = ?2 where job_id in (select value from json_each(?1)) returning job_id

-- name: suspended
update holdfast_suspended set priority = ?2 where job_id in (select value from json_each(?1)) returning job_id
