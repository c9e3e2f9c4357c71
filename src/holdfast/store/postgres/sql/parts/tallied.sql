-- Gives `tallied` (queue, task, state, jobs): what is folded, and what is not yet.
tallied as materialized (
    select queue, task, state, sum(jobs)::bigint as jobs
    from (
        select queue, task, state, jobs from {{schema}}.tally
        union all
        select queue, task, target, jobs from {{schema}}.move where target <> ''
        union all
        select queue, task, source, -jobs from {{schema}}.move where source <> ''
    ) as every_one
    group by queue, task, state
    having sum(jobs) <> 0
)
