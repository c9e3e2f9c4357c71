-- name: ready
update ready set queue = ?2 where job_id in (select value from json_each(?1)) returning job_id

-- name: scheduled
update scheduled set queue = ?2 where job_id in (select value from json_each(?1)) returning job_id

-- name: suspended
update suspended set queue = ?2 where job_id in (select value from json_each(?1)) returning job_id
