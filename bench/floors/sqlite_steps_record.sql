insert into step (job_id, name, fence, result, at)
select job_id, ?, fence, ?, ? from lease where job_id = ? and fence = ?
