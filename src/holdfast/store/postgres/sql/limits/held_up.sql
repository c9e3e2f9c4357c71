-- $1 now   $2 queues   $3 tasks   $4 labels of workers (null: whatever labels are needed)
-- Jobs that are parked where no end of a job makes room, and those that need other labels.
select (
    select count(*)::int
    from {{schema}}.line
    join {{schema}}.bucket on bucket.name = line.parked_at and bucket.in_use = 0
        and (bucket.opens_at is null or bucket.opens_at > {{now}})
    join {{schema}}.ready_limited as ready on ready.queue = line.queue and ready.priority = line.priority
        and ready.task = line.task and ready.buckets = line.buckets
    where line.parked_at is not null and line.queue = any ($2::text[]) and line.task = any ($3::text[])
    and ($4::text[] is null or line.labels <@ $4::text[])
) + (
    select count(*)::int
    from (
        select queue, priority, task, buckets from {{schema}}.line
        union
        select queue, priority, task, told.buckets
        from {{schema}}.newcomer
        cross join lateral unnest(newcomer.buckets || newcomer.others) as told (buckets)
    ) as waiting
    join {{schema}}.ready_limited as ready on ready.queue = waiting.queue and ready.priority = waiting.priority
        and ready.task = waiting.task and ready.buckets = waiting.buckets
    where waiting.queue = any ($2::text[]) and waiting.task = any ($3::text[])
    and strpos(waiting.buckets, '+') > 0 and not ({{schema}}.labels_of(waiting.buckets) <@ $4::text[])
)
