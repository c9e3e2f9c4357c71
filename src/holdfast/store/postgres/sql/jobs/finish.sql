-- $1 now   $2 channel   $3 only jobs whose worker is gone or lapsed (reclaim)   $4 ids   $5 fences
-- $6 source states   $7 next states   $8 attempts spent   $9 crashes added   $10 fence added
-- $11 delays   $12 seconds to keep   $13 results   $14 reasons   $15 cool-downs
-- $16 error kinds (null: none)   $17 messages   $18 tracebacks   $19 attempts of the errors
-- $20 errors kept   $21 seconds to keep a cancelled job whose policy does not say
-- $22 who reclaims (null: nobody in particular)   $23 alive since when, as it judged
-- Every end of an attempt but a plain return, and the ends of waiting jobs. Guarded as in
-- finish_succeeded.sql. A cancel that was asked for meanwhile ends what would have gone on.
with asked as materialized (
    select * from unnest($4::uuid[], $5::bigint[], $6::text[], $7::text[], $8::int[], $9::int[],
        $10::int[], $11::float8[], $12::float8[], $13::text[], $14::text[], $15::float8[],
        $16::text[], $17::text[], $18::text[], $19::int[])
        as given (job_id, fence, source, next, spend, crash, bump, delay, keep, result, reason,
            cool, kind, message, traceback, attempt)
),
trusted as materialized (
    -- the workers that still hold their lease; locked, so that none comes back in between
    select id from (
        select id, expires_at from {{schema}}.worker
        where $3::boolean and id = any (array(
            select worker_id from {{schema}}.lease where lease.job_id = any ($4::uuid[])))
        order by id
        for share
    ) as doubted
    where expires_at > coalesce($1::timestamptz, now())
),
stands as materialized (
    -- nothing has happened to the reclaiming worker since it judged
    select $22::uuid is null or exists (
        select from {{schema}}.worker
        where id = $22::uuid and alive_since = $23::timestamptz
        and expires_at > coalesce($1::timestamptz, now())
    ) as whole
),
held as materialized (
    select asked.job_id, asked.source
    from asked
    cross join lateral (
        select job_id from {{schema}}.lease
        where asked.source = 'running' and (select whole from stands)
        and lease.job_id = asked.job_id
        and lease.fence = asked.fence and not (lease.worker_id in (select id from trusted))
        limit 1
    ) as mine
    union all
    select asked.job_id, asked.source
    from asked
    cross join lateral (
        select job_id from {{schema}}.ready
        where asked.source = 'ready' and not $3::boolean
        and ready.job_id = asked.job_id and ready.fence = asked.fence
        limit 1
    ) as mine
    union all
    select asked.job_id, asked.source
    from asked
    cross join lateral (
        select job_id from {{schema}}.scheduled
        where asked.source = 'scheduled' and not $3::boolean
        and scheduled.job_id = asked.job_id and scheduled.fence = asked.fence
        limit 1
    ) as mine
    union all
    select asked.job_id, asked.source
    from asked
    cross join lateral (
        select job_id from {{schema}}.suspended
        where asked.source = 'suspended' and not $3::boolean
        and suspended.job_id = asked.job_id and suspended.fence = asked.fence
        limit 1
    ) as mine
),
from_lease as (
    delete from {{schema}}.lease
    where job_id = any (array(select job_id from held where source = 'running'))
    returning job_id, queue, priority, seq, task, attempts, crashes, fence, claimed_at,
        cancel_requested_at is not null as cancelled
),
from_ready as (
    delete from {{schema}}.ready
    where job_id = any (array(select job_id from held where source = 'ready'))
    returning job_id, queue, priority, seq, task, attempts, crashes, fence
),
from_scheduled as (
    delete from {{schema}}.scheduled
    where job_id = any (array(select job_id from held where source = 'scheduled'))
    returning job_id, queue, priority, task, attempts, crashes, fence
),
from_suspended as (
    delete from {{schema}}.suspended
    where job_id = any (array(select job_id from held where source = 'suspended'))
    returning job_id, queue, priority, task, attempts, crashes, fence
),
gone as materialized (
    select * from from_lease
    union all select *, null::timestamptz, false from from_ready
    union all select job_id, queue, priority, null::bigint, task, attempts, crashes, fence,
        null::timestamptz, false from from_scheduled
    union all select job_id, queue, priority, null::bigint, task, attempts, crashes, fence,
        null::timestamptz, false from from_suspended
),
judged as materialized (
    select gone.job_id, gone.queue, gone.priority, gone.seq, gone.task, gone.claimed_at,
        gone.attempts + asked.spend as attempts, gone.crashes + asked.crash as crashes,
        gone.fence + asked.bump as fence, asked.next, asked.delay, asked.keep, asked.result,
        asked.reason, asked.cool, asked.kind, asked.message, asked.traceback, asked.attempt,
        gone.cancelled and asked.next in ('ready', 'scheduled', 'suspended') as stopped
    from gone join asked on asked.job_id = gone.job_id
),
closed as materialized (
    select *, case when stopped then 'cancelled' else next end as state,
        case when stopped then 'cancelled on request' else reason end as told
    from judged
),
to_outcome as (
    insert into {{schema}}.outcome (job_id, state, queue, priority, task, attempts, crashes, fence,
        claimed_at, finished_at, expires_at, result, reason)
    select job_id, state, queue, priority, task, attempts, crashes, fence, claimed_at,
        coalesce($1::timestamptz, now()),
        coalesce($1::timestamptz, now()) + interval '1 second' * coalesce(
            (select case state when 'succeeded' then retain_succeeded
                when 'failed' then retain_failed else retain_other end
             from {{schema}}.queue where queue.name = closed.queue),
            case when stopped then
                -- by pattern: what is no JSON would end the statement for every other job in it
                (select coalesce(substring(policy from
                     '"retention":[{][^}]*"other":([0-9]{1,10}(?:[.][0-9]+)?)[,}]')::float8, $21::float8)
                 from {{schema}}.job where job.id = closed.job_id)
            else keep end
        ),
        case when stopped then null else result end, told
    from closed where state not in ('ready', 'scheduled', 'suspended')
),
to_ready as (
    -- handed back: it keeps its seq and so its turn
    insert into {{schema}}.ready
        (job_id, queue, priority, seq, task, attempts, crashes, fence, since)
    select job_id, queue, priority, coalesce(seq, nextval('{{schema}}.ready_seq')), task, attempts,
        crashes, fence, coalesce($1::timestamptz, now())
    from closed where state = 'ready'
),
to_scheduled as (
    insert into {{schema}}.scheduled
        (job_id, due_at, queue, priority, task, attempts, crashes, fence, reason)
    select job_id, coalesce($1::timestamptz, now()) + coalesce(delay, 0) * interval '1 second',
        queue, priority, task, attempts, crashes, fence, told
    from closed where state = 'scheduled'
),
to_suspended as (
    insert into {{schema}}.suspended
        (job_id, wake_at, queue, priority, task, attempts, crashes, fence, reason)
    select job_id, coalesce($1::timestamptz, now()) + delay * interval '1 second', queue, priority,
        task, attempts, crashes, fence, told
    from closed where state = 'suspended'
),
to_error as (
    insert into {{schema}}.error (job_id, at, attempt, kind, message, traceback)
    select job_id, coalesce($1::timestamptz, now()), attempt, kind, message, traceback
    from closed where kind is not null
),
forgotten as (
    -- the snapshot does not hold the entry just added, so one fewer of the old ones may stay
    delete from {{schema}}.error
    using closed
    cross join lateral (
        select n from {{schema}}.error as older
        where older.job_id = closed.job_id
        order by n desc offset $20::int - 1 limit 1
    ) as last
    where closed.kind is not null and error.job_id = closed.job_id and error.n <= last.n
),
throttled as materialized (
    select queue, max(cool) as hint from closed where cool is not null group by queue
),
cooled as (
    -- the first throttle of a window raises the count, its siblings only extend the window
    insert into {{schema}}.queue as line (name, throttles, cool_until)
    select queue, 1, coalesce($1::timestamptz, now()) + interval '1 second' * greatest(hint, 1)
    from throttled order by queue
    on conflict (name) do update set
        throttles = case
            when line.cool_until > coalesce($1::timestamptz, now()) then line.throttles
            when line.cool_until + interval '120 seconds' >= coalesce($1::timestamptz, now())
                then line.throttles + 1
            else 1 end,
        cool_until = coalesce($1::timestamptz, now()) + case
            when line.cool_until > coalesce($1::timestamptz, now())
                then greatest(line.cool_until - coalesce($1::timestamptz, now()), interval '1 second'
                    * (select hint from throttled where throttled.queue = line.name))
            else interval '1 second' * greatest(
                (select hint from throttled where throttled.queue = line.name),
                least(line.throttle_cap, line.throttle_base * power(2, case
                    when line.cool_until + interval '120 seconds'
                        >= coalesce($1::timestamptz, now())
                        then least(line.throttles, 60) else 0 end)))
            end
),
woken as (
    select count(pg_notify($2::text || few, payload)) as calls
    from (
        select case when length(string_agg(distinct queue, ',')) >= 2000
            then 'ready:' else 'ready:' || string_agg(distinct queue, ',')
                || case when count(*) <= 8 and min(queue) = max(queue) then '=' || count(*) else '' end
            end as payload,
            case when count(*) <= 8 and min(queue) = max(queue) then '_few' else '' end as few
        from closed where state = 'ready'
        union all
        select distinct 'due', '' from closed
        where state = 'scheduled' or (state = 'suspended' and delay is not null)
    ) as hints
    where payload is not null
)
select closed.job_id, closed.state, closed.fence, woken.calls from closed cross join woken
