-- One step of a walk: its hits, how many rows it looked at, and the last of them. The arms are read
-- downwards by their keys and merged, so a step reads no more rows than it looks at. `hit` reads
-- `walked` in its order.
with walked as materialized (
    {{walk}}
    order by job_id desc
    limit :look
),
hit as materialized (
    select p.job_id
    from walked as p
    where {{parts/filter}}
    limit :limit
),
seen as materialized (
    select count(*) as looked_at, min(job_id) as last
    from walked
    where job_id >= (
        select case when count(*) = :limit then min(job_id) else '' end from hit
    )
)
select hit.job_id, seen.looked_at, seen.last
from seen
left join hit
