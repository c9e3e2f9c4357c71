-- name: expired
select o.job_id, j.unique_key
from holdfast_outcome as o
left join holdfast_job as j on j.id = o.job_id
where o.expires_at <= ?
order by o.expires_at
limit ?

-- name: named
select o.job_id, j.unique_key
from json_each(?) as wanted
cross join holdfast_outcome as o on o.job_id = wanted.value
left join holdfast_job as j on j.id = o.job_id

-- name: outcome
delete from holdfast_outcome where job_id = ?

-- name: error
delete from holdfast_error where job_id = ?

-- name: progress
delete from holdfast_progress where job_id = ?

-- name: deadline
delete from holdfast_deadline where job_id = ?

-- name: job
delete from holdfast_job where id = ?

-- name: key
delete from holdfast_unique_key where key = ? and job_id = ?
