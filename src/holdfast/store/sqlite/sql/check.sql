-- name: version
select max(version) from migration

-- name: two places
select job_id from place group by job_id having count(*) > 1 limit 5

-- name: no place
select j.id
from job as j
left join ready as r on r.job_id = j.id
left join lease as l on l.job_id = j.id
left join scheduled as s on s.job_id = j.id
left join suspended as u on u.job_id = j.id
left join outcome as o on o.job_id = j.id
where coalesce(r.job_id, l.job_id, s.job_id, u.job_id, o.job_id) is null
limit 5

-- name: no body
select p.job_id
from place as p
where not exists (select 1 from job as j where j.id = p.job_id)
limit 5

-- name: no worker
select l.job_id
from lease as l
left join worker as w on w.id = l.worker_id
where w.id is null
limit 5
