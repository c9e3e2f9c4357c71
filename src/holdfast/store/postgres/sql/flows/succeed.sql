-- $1 now   $2 channel   $3 ids, $4 fences: with commas between them   $5 results, as a JSON list
-- $6 how long to wait for a flow or a lease that others have locked (null: as the transaction does)
-- $7 how many nodes may be skipped
-- uses: woken
-- Successes of nodes, with all that follows. Answers with those that it refused, or with one row of none.
with moves as materialized (
    select * from {{schema}}.succeed_nodes({{now}}, $2::text,
        string_to_array($3::text, ',')::uuid[], string_to_array($4::text, ',')::bigint[],
        array(select json_array_elements_text($5::json)), $6::text, $7::int)
),
counted as (
    insert into {{schema}}.move (at, queue, task, source, target, what, jobs)
    select {{now}}, queue, task, source, target,
        case when source = 'blocked' and target <> 'skipped' then 'released' else target end, sum(moved)
    from moves where moved > 0 group by queue, task, source, target
),
now_ready as (
    -- more than eight are many
    select queue from moves cross join generate_series(1, least(moved, 9)) where target = 'ready'
),
now_timed as (
    select from moves where target = 'scheduled'
),
{{woken}}
select refused.job_id::text, woken.calls
from woken left join (select job_id from moves where moved = 0) as refused on true
