update {{place}} set queue = ? where job_id in (select value from json_each(?))
