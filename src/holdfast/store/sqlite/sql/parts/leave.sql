delete from {{place}} where job_id in (select value from json_each(?))
