-- $1 now   $2 channel   $3 ids   $4 fences   $5 results
-- $6 how long to wait for a flow or a lease that others have locked (null: as the transaction does)
-- $7 how many nodes may be skipped
-- uses: counted woken
-- Successes of nodes, with all that follows. Answers with those that ended.
with moved as materialized (
    select * from {{schema}}.succeed_nodes({{now}}, $2::text, $3::uuid[], $4::bigint[], $5::text[],
        $6::text, $7::int)
),
counting as (
    select queue, task, source, target,
        case when source = 'blocked' and target <> 'skipped' then 'released' else target end as what
    from moved
),
{{counted}},
now_ready as (
    select queue from moved where target = 'ready'
),
now_timed as (
    select from moved where target = 'scheduled'
),
{{woken}}
select moved.job_id::text, woken.calls from moved cross join woken where moved.source = 'running'
