update {{place}} set priority = ?2 where job_id in (select value from json_each(?1)) returning job_id
