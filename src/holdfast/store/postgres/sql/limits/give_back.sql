-- $1 now   $2 channel   $3 buckets, each once   $4 how many jobs each no longer counts
-- uses: woken
-- Gives back what ended leases counted, in the transaction that ended them. By name and never by ctid: a row
-- that has changed since the snapshot is locked in its new version, which a scan by ctid would not find.
-- Buckets are locked in order, as claims do.
with freed as materialized (
    select name, jobs from unnest($3::text[], $4::bigint[]) as given (name, jobs)
),
locked as materialized (
    select name from {{schema}}.bucket
    where name = any ($3::text[]) order by name
    for update
),
given as (
    update {{schema}}.bucket
    set in_use = in_use - freed.jobs, touched_at = {{now}},
        opens_at = case when has_waiting then greatest(coalesce(shut_until, {{now}}), {{now}}) end
    from freed
    where bucket.name = freed.name and (bucket.name in (select name from locked)) is true
    returning bucket.name, bucket.has_waiting, freed.jobs
),
now_ready as (
    select parked.queue
    from given
    cross join lateral (
        select queue from {{schema}}.line
        where parked_at = given.name order by priority, turn limit given.jobs
    ) as parked
    where given.has_waiting
),
now_timed as (
    select where false
),
{{woken}}
select woken.calls from woken
