-- $1 step   $2 since   $3 until   $4 grain   $5 queues (null: all)   $6 tasks (null: all)
-- $7 queues, $8 tasks: the names of the points, if they are known (null: not)
-- The points that are kept, and what is not rolled up yet: one statement, so that nothing is rolled up
-- between two looks.
with rolling as materialized (
    select closed, greatest(rolled, $2::timestamptz) as since from {{schema}}.rolling
)
select at, queue, task, counts, times, null as what, null::bigint as jobs
from {{schema}}.series
where $7::text[] is null
and step = $1::int and grain = $4::text and at >= $2::timestamptz and at < $3::timestamptz
and ($5::text[] is null or queue = any ($5::text[]))
and ($6::text[] is null or task = any ($6::text[]))
union all
select points.at, points.queue, points.task, points.counts, points.times, null, null
from unnest($7::text[], $8::text[]) as wanted (queue, task)
cross join lateral (
    select * from {{schema}}.series
    where step = $1::int and series.queue = wanted.queue and series.task = wanted.task
    and at >= $2::timestamptz and at < $3::timestamptz
    -- keeps the planner from joining all points of this time with the names
    offset 0
) as points
union all
select minute, queue, task, null, times, null, null
from {{schema}}.measure
where minute >= (select since from rolling) and minute < $3::timestamptz
and ($5::text[] is null or queue = any ($5::text[]))
and ($6::text[] is null or task = any ($6::text[]))
union all
select minute, of_queue, of_task, null, null, what, sum(jobs)::bigint
from (
    select minute, what, jobs,
        case when $4::text = 'all' then '' else queue end as of_queue,
        case when $4::text = 'task' then task else '' end as of_task
    from (
        select minute, queue, task, what, jobs from {{schema}}.traffic
        where minute >= (select since from rolling) and minute < $3::timestamptz
        union all
        select greatest(date_trunc('minute', at), (select closed from rolling)), queue, task, what, jobs
        from {{schema}}.move
    ) as every_one
    where minute >= (select since from rolling) and minute < $3::timestamptz
    and ($5::text[] is null or queue = any ($5::text[]))
    and ($6::text[] is null or task = any ($6::text[]))
) as of_grain
group by minute, of_queue, of_task, what
