select job_id, buckets, costs from holdfast_limited where job_id in (select value from json_each(?))
