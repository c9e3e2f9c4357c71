-- $1 .. $22 as in walked, filtered and body_fits   $23 whether Python looks at bodies
-- $24 before this id   $25 look   $26 limit   $27 whether every place is walked
-- uses: walked filtered any_body body_fits
-- let once: offset 0
-- One step of a walk: its hits, how many rows it looked at, and the last of them. The places are merged
-- in order of the key, so a step reads no more rows than it looks at. `filled` is the last hit that the
-- page has room for, if it found so many.
-- If every place is walked, then the bodies between the first and the last walked job are those of the
-- walked jobs, and are read as a range. Otherwise there may be any number of others between them, so
-- each body is looked up by its key, which takes four times as long.
with walk as materialized (
    select place.job_id, place.state, place.queue, place.task, place.priority, place.attempts,
        place.worker_id, place.finished_at, place.reason
    from {{schema}}.place
    where place.job_id < coalesce($24::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    and {{walked}}
    order by place.job_id desc
    limit $25::int
),
lowest as materialized (
    select walk.job_id from walk order by walk.job_id limit 1
),
in_range as materialized (
    select job.id from {{schema}}.job
    where $27::boolean
    and job.id >= (select lowest.job_id from lowest)
    and job.id <= (select walk.job_id from walk limit 1)
    and {{body_fits}}
),
hit as materialized (
    select place.job_id from walk as place
    where {{filtered}}
    and (
        {{any_body}}
        -- "is true" keeps this a hashed lookup; as a join it could become a loop in a loop
        or (place.job_id in (select in_range.id from in_range)) is true
        or not $27::boolean and exists (
            select from {{schema}}.job where job.id = place.job_id and {{body_fits}} offset 0
        )
    )
    order by place.job_id desc
    limit $26::int
),
filled as materialized (
    select hit.job_id from hit
    where (select count(*) from hit) = $26::int
    order by hit.job_id
    limit 1
),
seen as (
    select count(*)::int as looked_at, coalesce(
        (select filled.job_id from filled), (select lowest.job_id from lowest)
    ) as last
    from walk
    where not exists (select from filled) or walk.job_id >= (select filled.job_id from filled)
)
select hit.job_id, seen.looked_at, seen.last, body.args, body.headers
from seen
left join hit on true
left join lateral (
    select job.args, job.headers from {{schema}}.job
    where $23::boolean and job.id = hit.job_id limit 1
) as body on true
order by hit.job_id desc
