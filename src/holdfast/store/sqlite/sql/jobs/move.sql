-- name: ready
update holdfast_ready set queue = ?2 where job_id in (select value from json_each(?1)) returning job_id

-- name: scheduled
update holdfast_scheduled set queue = ?2 where job_id in (select value from json_each(?1)) returning job_id

-- name: suspended
update holdfast_suspended set queue = ?2 where job_id in (select value from json_each(?1)) returning job_id
