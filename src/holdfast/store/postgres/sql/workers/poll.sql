-- $1 now   $2 worker   $3 queues   $4 seconds that count as lately   $5 most workers counted
-- Each part is one probe of an index. Infinite times are left out, since nothing can be subtracted
-- from infinity.
select
    exists (
        select from unnest($3::text[]) as asked (queue)
        cross join lateral (
            select from {{schema}}.ready_plain as ready where ready.queue = asked.queue limit 1
        ) as head
    )
    or exists (select from {{schema}}.newcomer where newcomer.queue = any ($3::text[]))
    or exists (select from {{schema}}.line where line.parked_at is null and line.queue = any ($3::text[]))
    or exists (select from {{schema}}.bucket where has_waiting and opens_at <= {{now}}) as ready,
    extract(epoch from least(
        (select due_at from {{schema}}.scheduled
         where due_at > {{now}} - $4::float8 * interval '1 second'
         and due_at < 'infinity' order by due_at limit 1),
        (select wake_at from {{schema}}.suspended
         where wake_at > {{now}} - $4::float8 * interval '1 second'
         and wake_at < 'infinity' order by wake_at limit 1),
        (select at from {{schema}}.deadline
         where at > {{now}} - $4::float8 * interval '1 second'
         and at < 'infinity' order by at limit 1)
    ) - {{now}})::float8 as due_in,
    coalesce((select n from {{schema}}.counter
        where topic = 'cancel' and name = $2::uuid::text), 0) as cancels,
    coalesce((select n from {{schema}}.counter
        where topic = 'schedules' and name = ''), 0) as schedules,
    (select count(*)::int from (
        select from {{schema}}.worker where expires_at > {{now}}
        limit $5::int
    ) as live) as replicas,
    exists (select from {{schema}}.operation where state = 'running') as operations,
    exists (select from {{schema}}.worker where expires_at <= {{now}}) as lapsed,
    exists (select from {{schema}}.errand) as errands
