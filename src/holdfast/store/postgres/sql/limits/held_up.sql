-- $1 now   $2 queues   $3 tasks
select count(*)::int
from {{schema}}.line
join {{schema}}.bucket on bucket.name = line.parked_at and bucket.in_use = 0
    and (bucket.opens_at is null or bucket.opens_at > {{now}})
join {{schema}}.ready on ready.limited and ready.queue = line.queue and ready.priority = line.priority
    and ready.task = line.task and ready.buckets = line.buckets
where line.parked_at is not null and line.queue = any ($2::text[]) and line.task = any ($3::text[])
