update {{place}} set ties = ties | 32 where job_id in (select value from json_each(?))
