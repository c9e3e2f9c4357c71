-- $1 now   $2 channel   $3 ended nodes   $4 their states   $5 whether they were live until now
-- $6 those that were blocked   $7 flows whose gates are all judged   $8 blocked nodes that need no gate
-- $9 how many nodes may be skipped
-- uses: counted woken
-- The flows are locked.
with settled as materialized (
    select * from {{schema}}.settle({{now}}, $2::text, $3::uuid[], $4::text[], $5::boolean, $6::uuid[],
        $7::uuid[], $8::uuid[], $9::int)
),
counting as (
    select queue, task, source, target,
        case when target = 'skipped' then 'skipped' else 'released' end as what
    from settled
),
{{counted}},
now_ready as (
    select queue from settled where target = 'ready'
),
now_timed as (
    select from settled where target = 'scheduled'
),
{{woken}}
select calls from woken
