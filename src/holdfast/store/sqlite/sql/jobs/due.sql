select job_id from holdfast_place where due_at <= ?1 and job_id > ?2 order by job_id limit ?3
