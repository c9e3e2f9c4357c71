-- $1 the jobs above this id   $2 and not above this one
-- All tables are read as ranges of their keys. What is in one of them and not in another is found by a
-- full join and by "except": both are made by sorting or hashing. "not exists" became a loop in a loop.
with body as materialized (
    select job.id from {{schema}}.job where job.id > $1::uuid and job.id <= $2::uuid
),
placed as materialized (
    select place.job_id, count(*) as places from {{schema}}.place
    where place.job_id > $1::uuid and place.job_id <= $2::uuid
    group by place.job_id
)
select count(body.id)::int,
    (count(*) filter (where placed.job_id is null))::int,
    (count(*) filter (where placed.places > 1))::int,
    (count(*) filter (where body.id is null))::int,
    (
        select count(*) from (
            select happening.job_id from {{schema}}.happening
            where happening.job_id > $1::uuid and happening.job_id <= $2::uuid
            except
            select body.id from body
        ) as lifeless
    )::int,
    (
        select count(*) from (
            (
                select job_id from {{schema}}.step where job_id > $1::uuid and job_id <= $2::uuid
                union
                select job_id from {{schema}}.frames where job_id > $1::uuid and job_id <= $2::uuid
                union
                select job_id from {{schema}}.live_frames
                where job_id > $1::uuid and job_id <= $2::uuid
            )
            except
            select body.id from body
        ) as jobless
    )::int
from body
full join placed on placed.job_id = body.id
