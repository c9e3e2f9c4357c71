-- $1 now   $2 names (null: all)
-- Counts live states only: counting ended jobs would read the whole history.
with counted as materialized (
    select queue, state, count(*) as jobs, min(since) as oldest
    from {{schema}}.place
    where not ended and ($2::text[] is null or queue = any ($2::text[]))
    group by queue, state
),
named as (
    select name from {{schema}}.queue
    where left(name, 1) <> '*' and ($2::text[] is null or name = any ($2::text[]))
    union
    select queue from counted
)
select named.name, coalesce(queue.paused, false) as paused,
    case when queue.cool_until > {{now}}
        then extract(epoch from queue.cool_until - {{now}})::float8
    end as cooling_for,
    coalesce(queue.throttles, 0) as throttles, coalesce(queue.settings::text, '{}') as settings,
    array(select state from counted where counted.queue = named.name order by state) as states,
    array(select jobs from counted where counted.queue = named.name order by state) as jobs,
    (select extract(epoch from {{now}} - min(oldest))::float8
     from counted where counted.queue = named.name) as oldest_ready_age
from named left join {{schema}}.queue on queue.name = named.name
order by named.name
