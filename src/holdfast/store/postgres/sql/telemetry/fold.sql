-- $1 now   $2 name of the lock   $3 limit   $4 seconds that a minute is kept
-- uses: failures_folded
-- One program folds at a time: two would wait for each other at the rows they add to. Who finds the
-- lock taken has nothing to do.
with alone as materialized (
    select pg_try_advisory_xact_lock(hashtextextended($2::text, 0)) as is_so
),
picked as materialized (
    select ctid from {{schema}}.move where (select is_so from alone) limit $3::int
),
rolling as materialized (
    -- A closed minute takes no more moves: what is committed too late counts in the oldest that is
    -- open. Nobody closes a minute until this statement is over.
    select closed, rolled from {{schema}}.rolling for share
),
folded as (
    delete from {{schema}}.move where ctid = any (array(select ctid from picked))
    returning greatest(date_trunc('minute', at), (select closed from rolling)) as minute, queue, task,
        source, target, what, jobs
),
changed as materialized (
    select queue, task, state, sum(jobs) as jobs
    from (
        select queue, task, target as state, jobs from folded
        union all
        select queue, task, source, -jobs from folded
    ) as every_one
    where state <> ''
    group by queue, task, state
),
emptied as (
    -- what comes to none now; the statement must not change a row twice
    delete from {{schema}}.tally using changed
    where tally.queue = changed.queue and tally.task = changed.task and tally.state = changed.state
    and tally.jobs + changed.jobs = 0
    returning tally.queue, tally.task, tally.state
),
to_tally as (
    insert into {{schema}}.tally as old (queue, task, state, jobs)
    select queue, task, state, jobs from changed
    where jobs <> 0 and ((queue, task, state) in (select * from emptied)) is not true
    order by queue, task, state
    on conflict (queue, task, state) do update set jobs = old.jobs + excluded.jobs
),
to_total as (
    insert into {{schema}}.total as old (queue, task, what, jobs)
    select queue, task, what, sum(jobs) from folded group by queue, task, what
    order by queue, task, what
    on conflict (queue, task, what) do update set jobs = old.jobs + excluded.jobs
),
to_traffic as (
    insert into {{schema}}.traffic as old (minute, queue, task, what, jobs)
    select minute, queue, task, what, sum(jobs) from folded group by minute, queue, task, what
    order by minute, queue, task, what
    on conflict (minute, queue, task, what) do update set jobs = old.jobs + excluded.jobs
),
forgotten as (
    delete from {{schema}}.traffic
    where ctid = any (array(
        select ctid from {{schema}}.traffic
        where minute < least({{now}} - $4::float8 * interval '1 second', (select rolled from rolling))
        and (select is_so from alone)
        limit $3::int
    ))
),
{{failures_folded}}
select greatest((select count(*) from folded), (select count(*) from seen))::int
