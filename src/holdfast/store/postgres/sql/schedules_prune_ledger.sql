-- $1 now   $2 limit
-- Several may prune at once: each takes rows that no other has. Removed by ctid, so that no
-- estimate makes it a walk of the history.
with over as materialized (
    select ctid, schedule, scope, at from {{schema}}.ledger
    where keep_until <= coalesce($1::timestamptz, now())
    and (
        job_id is null
        or (
            select true from {{schema}}.place
            where place.job_id = ledger.job_id and not place.ended limit 1
        ) is not true
    )
    order by keep_until limit $2::int
    for update skip locked
),
jobs as materialized (
    select mine.ctid
    from over
    cross join lateral (
        select ctid from {{schema}}.started
        where started.schedule = over.schedule and started.scope = over.scope
        and started.at = over.at limit 1
    ) as mine
),
finished as (
    delete from {{schema}}.started where ctid = any (array(select ctid from jobs))
),
gone as (
    delete from {{schema}}.ledger where ctid = any (array(select ctid from over))
    returning 1
)
select count(*)::int from gone
