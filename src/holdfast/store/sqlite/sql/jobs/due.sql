select job_id from holdfast_place where due_at <= ? and job_id > ? order by job_id limit ?
