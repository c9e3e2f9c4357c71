delete from holdfast_deadline
where job_id in (select value from json_each(?))
    and not exists (select 1 from holdfast_outcome as o where o.job_id = holdfast_deadline.job_id)
returning job_id
