-- name: version
select max(version) from holdfast_migration

-- What follows looks at the jobs of a range: their ids are above `:low`, and not above `:high`. Tables
-- are read as ranges of their keys.

-- name: last of a range
select id from holdfast_job where id > :low order by id limit 1 offset :jobs

-- name: before the newest
select id from holdfast_job order by id desc limit 1 offset :jobs

-- name: jobs
select count(*) from holdfast_job where id > :low and id <= :high

-- name: two places
select job_id
from holdfast_place
where job_id > :low and job_id <= :high
group by job_id
having count(*) > 1
limit :shown

-- name: no place
select id from holdfast_job where id > :low and id <= :high
except
select job_id from holdfast_place where job_id > :low and job_id <= :high
limit :shown

-- name: no body
select p.job_id
from holdfast_place as p
where p.job_id > :low and p.job_id <= :high
    and not exists (select 1 from holdfast_job as j where j.id = p.job_id)
limit :shown

-- name: damaged
-- SQLite keeps a text also where a number belongs.
select id
from holdfast_job
where id > :low and id <= :high and typeof(created_at) <> 'integer'
union all
select job_id
from holdfast_place
where job_id > :low and job_id <= :high
    and (
        typeof(priority) <> 'integer'
        or typeof(attempts) <> 'integer'
        or typeof(crashes) <> 'integer'
        or typeof(fence) <> 'integer'
        or typeof(ties) <> 'integer'
        or typeof(claimed_at) not in ('integer', 'null')
        or typeof(due_at) not in ('integer', 'null')
        or typeof(deadline_at) not in ('integer', 'null')
        or typeof(finished_at) not in ('integer', 'null')
        or typeof(expires_at) not in ('integer', 'null')
        or typeof(cancel_requested_at) not in ('integer', 'null')
    )
limit :shown

-- name: no job
select distinct e.job_id
from holdfast_happening as e
where e.job_id > :low and e.job_id <= :high
    and not exists (select 1 from holdfast_job as j where j.id = e.job_id)
limit :shown

-- name: stray step
select job_id
from (
    select job_id from holdfast_step where job_id > :low and job_id <= :high
    union
    select job_id from holdfast_frames where job_id > :low and job_id <= :high
) as r
where not exists (select 1 from holdfast_job as j where j.id = r.job_id)
limit :shown

-- name: no line
-- A claim finds a job with limits by its line alone.
select r.job_id
from holdfast_ready as r
where r.job_id > :low and r.job_id <= :high
    and r.line <> 0
    and not exists (select 1 from holdfast_line as l where l.id = r.line)
limit :shown

-- name: no worker
select l.job_id
from holdfast_lease as l
left join holdfast_worker as w on w.id = l.worker_id
where w.id is null
limit :shown
