-- $1 now   $2 names (null: all)
-- uses: tallied
-- The oldest ready job of a queue is the first of one of its priorities: two steps of the index for
-- each, however many jobs wait.
with recursive {{tallied}},
counted as materialized (
    select queue, state, sum(jobs)::bigint as jobs
    from tallied
    where $2::text[] is null or queue = any ($2::text[])
    group by queue, state
),
line (queue, priority) as (
    (select queue, priority from {{schema}}.ready_plain order by queue, priority limit 1)
    union all
    select following.queue, following.priority
    from line cross join lateral (
        select ready.queue, ready.priority from {{schema}}.ready_plain as ready
        where (ready.queue, ready.priority) > (line.queue, line.priority)
        order by ready.queue, ready.priority limit 1
    ) as following
),
heads as (
    select line.queue, head.since
    from line cross join lateral (
        select since from {{schema}}.ready_plain as ready
        where ready.queue = line.queue and ready.priority = line.priority
        order by seq limit 1
    ) as head
    union all
    select waited.queue, head.since
    from (select * from {{schema}}.line order by turn limit 1000) as waited
    cross join lateral (
        select since from {{schema}}.ready_limited as ready
        where ready.queue = waited.queue and ready.priority = waited.priority
        and ready.task = waited.task and ready.buckets = waited.buckets
        order by seq limit 1
    ) as head
    union all
    select newcomer.queue, head.since
    from (
        select queue, priority, task, told.buckets
        from {{schema}}.newcomer
        cross join lateral unnest(newcomer.buckets || newcomer.others) as told (buckets)
        order by n limit 1000
    ) as newcomer
    cross join lateral (
        select since from {{schema}}.ready_limited as ready
        where ready.queue = newcomer.queue and ready.priority = newcomer.priority
        and ready.task = newcomer.task and ready.buckets = newcomer.buckets
        order by seq limit 1
    ) as head
),
waiting as materialized (
    select queue, min(since) as oldest from heads group by queue
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
    (select extract(epoch from {{now}} - oldest)::float8
     from waiting where waiting.queue = named.name) as oldest_ready_age
from named left join {{schema}}.queue on queue.name = named.name
order by named.name
