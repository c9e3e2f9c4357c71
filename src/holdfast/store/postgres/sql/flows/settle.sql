-- $1 now   $2 channel   $3 ended nodes   $4 their states   $5 whether they were live until now
-- $6 those that were blocked   $7 flows that may have ended   $8 nodes whose gates are judged (null: all of $7)
-- $9 the least `wants` of an edge that counts if its upstream was not live   $10 blocked nodes that need no gate
-- $11 how many nodes may be skipped
-- uses: woken
-- The flows are locked.
with settled as materialized (
    select * from {{schema}}.settle({{now}}, $2::text, $3::uuid[], $4::text[], $5::boolean, $6::uuid[],
        $7::uuid[], $8::uuid[], $9::bigint, $10::uuid[], $11::int)
),
counted as (
    insert into {{schema}}.move (at, queue, task, source, target, what, jobs)
    select {{now}}, queue, task, 'blocked', target,
        case when target = 'skipped' then 'skipped' else 'released' end, sum(moved)
    from settled group by queue, task, target
),
now_ready as (
    -- more than eight are many
    select queue from settled cross join generate_series(1, least(moved, 9)) where target = 'ready'
),
now_timed as (
    select from settled where target = 'scheduled'
),
{{woken}}
select calls from woken
