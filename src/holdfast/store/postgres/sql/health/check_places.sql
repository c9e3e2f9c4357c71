-- $1 how many of the oldest and of the newest bodies to check
with checked as materialized (
    (select id from {{schema}}.job order by id limit $1::int)
    union
    (select id from {{schema}}.job order by id desc limit $1::int)
),
counted as materialized (
    select checked.id, (
        select count(*) from {{schema}}.place where place.job_id = checked.id
    ) as places
    from checked
),
placed as materialized (
    (select job_id from {{schema}}.place order by job_id limit $1::int)
    union
    (select job_id from {{schema}}.place order by job_id desc limit $1::int)
),
lived as materialized (
    (select job_id from {{schema}}.happening order by job_id limit $1::int)
    union
    (select job_id from {{schema}}.happening order by job_id desc limit $1::int)
),
stepped as materialized (
    (select job_id from {{schema}}.step order by job_id limit $1::int)
    union
    (select job_id from {{schema}}.step order by job_id desc limit $1::int)
    union
    (select job_id from {{schema}}.frames order by job_id limit $1::int)
    union
    (select job_id from {{schema}}.frames order by job_id desc limit $1::int)
    union
    (select job_id from {{schema}}.live_frames order by job_id limit $1::int)
)
select count(*)::int, (count(*) filter (where places = 0))::int,
    (count(*) filter (where places > 1))::int,
    (select count(*)::int from placed
     where not exists (select from {{schema}}.job where job.id = placed.job_id)),
    (select count(*)::int from lived
     where not exists (select from {{schema}}.job where job.id = lived.job_id)),
    (select count(*)::int from stepped
     where not exists (select from {{schema}}.job where job.id = stepped.job_id))
from counted
