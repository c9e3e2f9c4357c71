update {{place}} set priority = ? where job_id in (select value from json_each(?))
