-- $1 now   $2 limit
-- Several may prune at once: each takes schedules and rows that no other has. Schedules are locked
-- before their rows, in the order of a delete. Schedules that are locked already are left for the next
-- time. Rows are removed by ctid, so that no estimate makes it a walk of the history.
with candidates as materialized (
    select ctid, schedule from {{schema}}.ledger
    where keep_until <= {{now}} and decision not in ('failed', 'waiting')
    and (
        job_id is null
        or (
            select true from {{schema}}.place
            where place.job_id = ledger.job_id and not place.ended limit 1
        ) is not true
    )
    order by keep_until limit $2::int
),
named as materialized (
    select name from {{schema}}.schedule
    where name = any (array(select distinct schedule from candidates))
    order by name for no key update skip locked
),
over as materialized (
    select ctid, schedule, scope, at, decision from {{schema}}.ledger
    where ctid = any (array(select ctid from candidates))
    and schedule = any (array(select name from named))
    for update skip locked
),
forgotten as (
    update {{schema}}.schedule
    set pruned_from = least(pruned_from, fired.first),
        pruned_until = greatest(pruned_until, fired.last)
    from (
        select schedule, min(at) as first, max(at) as last from over
        where decision = 'fired' group by schedule
    ) as fired
    where name = fired.schedule
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
