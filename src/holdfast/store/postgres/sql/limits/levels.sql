-- $1 queue   $2 tasks   $3 labels of the worker   $4 aging, in seconds   $5 labels that a job must need: none of the
-- plain ones has any
-- What may be given of a queue in which jobs age: for each priority the first plain job, and the first job of the line
-- whose turn it is, of the lines that have one. The least age goes first.
with recursive known (priority) as (
    (select priority from {{schema}}.ready_plain where queue = $1::text order by priority limit 1)
    union all
    select (select ready.priority from {{schema}}.ready_plain as ready
        where ready.queue = $1::text and ready.priority > known.priority order by ready.priority limit 1)
    from known where known.priority is not null
),
open (priority) as (
    (select priority from {{schema}}.line where queue = $1::text and parked_at is null order by priority limit 1)
    union all
    select (select line.priority from {{schema}}.line
        where line.queue = $1::text and line.parked_at is null and line.priority > open.priority
        order by line.priority limit 1)
    from open where open.priority is not null
),
level as (
    select known.priority, true as plain, head.since
    from known cross join lateral (
        select ready.since from {{schema}}.ready_plain as ready
        where ready.queue = $1::text and ready.priority = known.priority and ready.task = any ($2::text[])
        order by ready.seq limit 1
    ) as head
    where known.priority is not null and $5::text[] = '{}'
    union all
    select open.priority, false, head.since
    from open
    cross join lateral (
        select first.since from {{schema}}.line
        -- a line whose last job was cancelled is there until a claim of its level meets it
        cross join lateral (
            select ready.since from {{schema}}.ready_limited as ready
            where ready.queue = $1::text and ready.priority = open.priority and ready.task = line.task
            and ready.buckets = line.buckets
            order by ready.seq limit 1
        ) as first
        where line.queue = $1::text and line.priority = open.priority and line.parked_at is null
        and line.task = any ($2::text[]) and line.labels <@ $3::text[] and line.labels @> $5::text[]
        order by line.turn, line.n limit 1
    ) as head
    where open.priority is not null
)
select priority, plain, date_part('epoch', since) + priority * $4::float8 as age from level
order by age, priority, not plain
