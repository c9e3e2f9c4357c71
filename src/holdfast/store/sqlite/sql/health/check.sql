-- name: version
select max(version) from holdfast_migration

-- name: two places
select job_id from holdfast_place group by job_id having count(*) > 1 limit 5

-- name: no place
select j.id
from holdfast_job as j
where not exists (select 1 from holdfast_place as p where p.job_id = j.id)
limit 5

-- name: no body
select p.job_id
from holdfast_place as p
where not exists (select 1 from holdfast_job as j where j.id = p.job_id)
limit 5

-- name: no worker
select l.job_id
from holdfast_lease as l
left join holdfast_worker as w on w.id = l.worker_id
where w.id is null
limit 5
