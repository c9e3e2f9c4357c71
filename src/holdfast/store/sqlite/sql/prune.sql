-- name: expired
select o.job_id, j.unique_key
from outcome as o
left join job as j on j.id = o.job_id
where o.expires_at <= ?
order by o.expires_at
limit ?

-- name: named
select o.job_id, j.unique_key
from json_each(?) as wanted
cross join outcome as o on o.job_id = wanted.value
left join job as j on j.id = o.job_id

-- name: outcome
delete from outcome where job_id = ?

-- name: error
delete from error where job_id = ?

-- name: progress
delete from progress where job_id = ?

-- name: deadline
delete from deadline where job_id = ?

-- name: job
delete from job where id = ?

-- name: key
delete from unique_key where key = ? and job_id = ?
