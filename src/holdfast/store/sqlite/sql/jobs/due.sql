select job_id from holdfast_scheduled where due_at <= ?1 and job_id > ?2
union all
select job_id from holdfast_suspended where wake_at <= ?1 and job_id > ?2
order by job_id
limit ?3
