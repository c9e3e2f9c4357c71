-- $1 now   $2 channel   $3 only jobs whose worker is gone or lapsed (reclaim)   $4 ids   $5 fences
-- $6 source states   $7 next states   $8 attempts spent   $9 crashes added   $10 fence added
-- $11 delays   $12 seconds to keep (null: for ever)   $13 results   $14 reasons
-- $15 error kinds (null: none)   $16 what their happenings say   $17 tracebacks   $18 who asked for it
-- $19 fingerprints of errors   $20 seconds to keep a cancelled job whose policy does not say
-- $21 who reclaims (null: nobody in particular)   $22 alive since when, as it judged   $23 due at
-- $24 wait for leases that others have locked   $25 what moves the jobs
-- $26 seconds that a sample of an error is good for   $27 give back at once what leases counted
-- $28 what attempts have spent in all by limit (null: nothing to say)   $29 what becomes of the rest
-- $30 ties that the jobs get if they go on
-- let ended: closed
-- let end_state: state
-- uses: from_waiting to_undo retention_of_policy counted failed told woken
-- let otherwise: $20::float8
-- let sampled: $26::float8
-- Guarded moves: every end of an attempt but a plain success, and the moves of waiting jobs. A running
-- job whose cancel was asked for does not go on: it is cancelled. Answers with the moves it made.
with asked as materialized (
    select * from unnest($4::uuid[], $5::bigint[], $6::text[], $7::text[], $8::int[], $9::int[],
        $10::int[], $11::float8[], $12::float8[], $13::text[], $14::text[],
        $15::text[], $16::text[], $17::text[], $18::text[], $23::timestamptz[], $25::text[],
        $19::text[], $28::text[], $29::text[], $30::smallint[])
        as given (job_id, fence, source, next, spend, crash, bump, delay, keep, result, reason,
            kind, message, traceback, by, run_at, what, fingerprint, reported, settles, gained)
),
trusted as materialized (
    -- the workers whose lease has not lapsed; locked, so that no lapsed one comes back meanwhile
    select id from (
        select id, expires_at from {{schema}}.worker
        where $3::boolean and id = any (array(
            select worker_id from {{schema}}.lease where lease.job_id = any ($4::uuid[])))
        order by id
        for share
    ) as doubted
    where expires_at > {{now}}
),
stands as materialized (
    -- nothing has happened to the reclaiming worker since it judged
    select $21::uuid is null or exists (
        select from {{schema}}.worker
        where id = $21::uuid and alive_since = $22::timestamptz and expires_at > {{now}}
    ) as whole
),
held as materialized (
    -- the guard: the job is in its source state, with the fence that was given. Only the branch of
    -- the view that has this state is probed
    select asked.job_id, asked.source
    from asked
    cross join lateral (
        select worker_id from {{schema}}.place
        where place.job_id = asked.job_id and place.state = asked.source
        and place.fence = asked.fence and not place.ended
        limit 1
    ) as mine
    where case when asked.source = 'running'
        then (select whole from stands) and not (mine.worker_id in (select id from trusted))
        else not $3::boolean end
),
free as materialized (
    -- a handler that finished its job in its own transaction holds the lease until it commits. One
    -- such lease must not keep all other moves waiting
    select job_id from {{schema}}.lease
    where not $24::boolean
    and job_id = any (array(select job_id from held where source = 'running'))
    for update skip locked
),
from_lease as (
    delete from {{schema}}.lease
    where job_id = any (array(
        select job_id from held where $24::boolean and source = 'running'
        union all select job_id from free))
    returning job_id, queue, priority, seq, task, attempts, crashes, fence, ties, since, claimed_at,
        worker_id, cancel_requested_at is not null as cancelled, buckets, costs, spent
),
leaving as materialized (
    select job_id from held where source <> 'running'
),
{{from_waiting}},
gone as materialized (
    select * from from_lease
    union all
    select job_id, queue, priority, seq, task, attempts, crashes, fence, ties, null, null, null,
        false, null, null, null
    from out_of_waiting
),
judged as materialized (
    select gone.job_id, gone.queue, gone.priority, gone.seq, gone.task, gone.ties, gone.since,
        gone.claimed_at, gone.worker_id, gone.buckets, gone.costs, gone.spent, asked.reported,
        asked.settles, asked.source, asked.what, asked.gained,
        gone.attempts + asked.spend as attempts, gone.crashes + asked.crash as crashes,
        gone.fence + asked.bump as fence, gone.fence as held_fence,
        gone.attempts + (asked.source = 'running')::int as attempt, asked.next,
        case when asked.next = 'scheduled'
            then coalesce(asked.run_at, {{now}} + coalesce(asked.delay, 0) * interval '1 second')
            when asked.next = 'suspended' then {{now}} + asked.delay * interval '1 second'
            end as due_at, asked.keep, asked.result,
        asked.reason, asked.kind, asked.message, asked.traceback, asked.by, asked.fingerprint,
        gone.cancelled and asked.next in
            ('ready', 'scheduled', 'suspended'{{each untimed_end}}, '{{place}}'{{end}}) as stopped
    from gone join asked on asked.job_id = gone.job_id
),
closed as materialized (
    select *, case when stopped then 'cancelled' else next end as state,
        case when stopped then 'cancelled on request' else reason end as why
    from judged
),
to_outcome as (
    insert into {{schema}}.outcome (job_id, state, queue, priority, task, attempts, crashes, fence,
        ties, claimed_at, worker_id, finished_at, expires_at, result, reason, fingerprint)
    select job_id, state, queue, priority, task, attempts, crashes, fence, ties, claimed_at,
        worker_id, {{now}}, case when ties & 1 = 0 then {{now}} + interval '1 second' * coalesce(
            (select (settings ->> {{retained_by}})::float8
             from {{schema}}.queue where queue.name = closed.queue),
            case when stopped then
                (select {{retention_of_policy}} from {{schema}}.job where job.id = closed.job_id)
            else keep end
        ) end, -- a node is kept as long as its flow
        case when stopped then null else result end, why, fingerprint
    -- the table refuses a state that is not of an ended job, so an unknown state is an error
    from closed where state not in
        ('ready', 'scheduled', 'suspended'{{each untimed_end}}, '{{place}}'{{end}})
),
{{to_undo}},
to_ready as (
    -- a job that is handed back keeps its seq, and so its position and the time it took it
    insert into {{schema}}.ready
        (job_id, queue, priority, seq, task, attempts, crashes, fence, ties, since)
    select job_id, queue, priority, coalesce(seq, nextval('{{schema}}.ready_seq')), task, attempts,
        crashes, fence, ties | gained, coalesce(since, {{now}})
    from closed where state = 'ready'
),
to_scheduled as (
    insert into {{schema}}.scheduled
        (job_id, due_at, queue, priority, task, attempts, crashes, fence, ties, reason)
    select job_id, due_at, queue, priority, task, attempts, crashes, fence, ties | gained, why
    from closed where state = 'scheduled'
),
to_suspended as (
    insert into {{schema}}.suspended
        (job_id, wake_at, queue, priority, task, attempts, crashes, fence, ties, reason)
    select job_id, due_at, queue, priority, task, attempts, crashes, fence, ties | gained, why
    from closed where state = 'suspended'
),
{{each untimed_end}}
to_{{place}} as (
    insert into {{schema}}.{{place}}
        (job_id, queue, priority, task, attempts, crashes, fence, ties)
    select job_id, queue, priority, task, attempts, crashes, fence, ties | gained
    from closed where state = '{{place}}'
),
{{end}}
happened as (
    -- a success is told by its outcome; the fence is that of the attempt, without a bump
    select job_id, held_fence as fence, claimed_at, case when not stopped then due_at end as due_at,
        worker_id, attempt, case when stopped then 'cancelled' else what end as what, by, kind,
        case when stopped and kind is null then why else message end as message, traceback, fingerprint
    from closed where state <> 'succeeded'
),
{{told}},
counting as (
    select queue, task, source, state as target,
        case when stopped then 'cancelled' else what end as what
    from closed
),
{{counted}},
{{failed}},
now_ready as (
    select queue from closed where state = 'ready'
),
now_timed as (
    select from closed where state = 'scheduled' or (state = 'suspended' and due_at is not null)
),
{{woken}},
receipts as materialized (
    select job_id, row(buckets, costs, coalesce(spent, '{}') || coalesce(reported::jsonb, '{}'), settles,
        claimed_at)::{{schema}}.receipt as receipt
    from closed where buckets is not null
),
given_back as materialized (
    select count({{schema}}.give_back($2::text, given.list, {{now}})) as calls
    from (
        select array_agg(receipt) as list from receipts where $27::boolean having count(*) > 0
    ) as given
)
select closed.job_id::text, closed.state, closed.fence, closed.queue, closed.buckets, woken.calls,
    (select receipt::text from receipts where receipts.job_id = closed.job_id) as receipt,
    -- it may have been tied to a flow after its end was decided
    case when closed.ties & 16 <> 0
        and closed.state in ('succeeded', 'failed', 'cancelled', 'expired', 'skipped')
        then {{schema}}.orphan_flows({{now}}, $2::text, closed.job_id) end as orphaned,
    case when closed.ties & 64 <> 0 and closed.state in ('failed', 'cancelled', 'expired')
        then pg_notify($2::text, 'errands') end as undone
from closed cross join woken cross join given_back
