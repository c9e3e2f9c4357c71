update {{place}}
set queue = :value
where job_id in (select value from json_each(:ids))
returning job_id
