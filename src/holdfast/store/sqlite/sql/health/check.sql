-- name: version
select max(version) from holdfast_migration

-- name: two places
-- Asked for a second place, SQLite searches each table by its key. A count of the places it makes from
-- a copy of all of them.
with looked as (
    select id from (select id from holdfast_job order by id limit :looked)
    union
    select id from (select id from holdfast_job order by id desc limit :looked)
)
select id
from looked
where exists (select 1 from holdfast_place as p where p.job_id = looked.id limit 1 offset 1)
limit :shown

-- name: no place
with looked as (
    select id from (select id from holdfast_job order by id limit :looked)
    union
    select id from (select id from holdfast_job order by id desc limit :looked)
)
select id
from looked
where not exists (select 1 from holdfast_place as p where p.job_id = looked.id)
limit :shown

-- name: no body
with looked as (
    select job_id from (select job_id from holdfast_place order by job_id limit :looked)
    union
    select job_id from (select job_id from holdfast_place order by job_id desc limit :looked)
)
select job_id
from looked
where not exists (select 1 from holdfast_job as j where j.id = looked.job_id)
limit :shown

-- name: damaged
-- SQLite keeps a text also where a number belongs.
with looked as (
    select id from (select id from holdfast_job order by id limit :looked)
    union
    select id from (select id from holdfast_job order by id desc limit :looked)
)
select j.id
from looked
cross join holdfast_job as j on j.id = looked.id
where typeof(j.created_at) <> 'integer'
    or exists (
        select 1
        from holdfast_place as p
        where p.job_id = looked.id
            and (
                typeof(p.priority) <> 'integer'
                or typeof(p.attempts) <> 'integer'
                or typeof(p.crashes) <> 'integer'
                or typeof(p.fence) <> 'integer'
                or typeof(p.ties) <> 'integer'
                or typeof(p.claimed_at) not in ('integer', 'null')
                or typeof(p.due_at) not in ('integer', 'null')
                or typeof(p.deadline_at) not in ('integer', 'null')
                or typeof(p.finished_at) not in ('integer', 'null')
                or typeof(p.expires_at) not in ('integer', 'null')
                or typeof(p.cancel_requested_at) not in ('integer', 'null')
            )
    )
limit :shown

-- name: no job
with looked as (
    select job_id from (select job_id from holdfast_happening order by job_id limit :looked)
    union
    select job_id from (select job_id from holdfast_happening order by job_id desc limit :looked)
)
select job_id
from looked
where not exists (select 1 from holdfast_job as j where j.id = looked.job_id)
limit :shown

-- name: stray step
with looked as (
    select job_id from (select job_id from holdfast_step order by job_id limit :looked)
    union
    select job_id from (select job_id from holdfast_step order by job_id desc limit :looked)
    union
    select job_id from (select job_id from holdfast_frames order by job_id limit :looked)
    union
    select job_id from (select job_id from holdfast_frames order by job_id desc limit :looked)
)
select job_id
from looked
where not exists (select 1 from holdfast_job as j where j.id = looked.job_id)
limit :shown

-- name: no worker
select l.job_id
from holdfast_lease as l
left join holdfast_worker as w on w.id = l.worker_id
where w.id is null
limit :shown
