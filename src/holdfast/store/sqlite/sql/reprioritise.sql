-- name: ready
update ready set priority = ?2 where job_id in (select value from json_each(?1)) returning job_id

-- name: scheduled
update scheduled set priority = ?2 where job_id in (select value from json_each(?1)) returning job_id

-- name: suspended
update suspended set priority = ?2 where job_id in (select value from json_each(?1)) returning job_id
