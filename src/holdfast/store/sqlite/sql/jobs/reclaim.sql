-- name: trusted
select l.job_id
from json_each(?) as wanted
cross join holdfast_lease as l on l.job_id = wanted.value
cross join holdfast_worker as w on w.id = l.worker_id
where w.expires_at > ?

-- name: stands
select 1 from holdfast_worker where id = ? and alive_since = ? and expires_at > ?
