-- $1 now   $2 channel   $3 flow   $4 epoch   $5 nodes that are ready at once   $6 nodes that are to be
-- blocked   $7 nodes that are blocked, and get other gates   $8 who asks
-- $9 nodes that are to be removed, by flows/remove
-- let gone: again
-- uses: is_undone unrecorded counted told woken
-- Changes all or nothing, and answers with the epoch from now on if it changed. The flow is locked.
with wanted as materialized (
    select id, bool_or(waits) as waits, bool_or(goes) as goes
    from (
        select id, false as waits, false as goes from unnest($5::uuid[]) as ready (id)
        union all
        select id, true, false from unnest($6::uuid[]) as blocked (id)
        union all
        select id, false, true from unnest($9::uuid[]) as removed (id)
    ) as named
    group by id
),
ended as materialized (
    select outcome.*, node.is_sink, node.is_bad, node.is_let_go, node.is_unsettled, wanted.waits, wanted.goes
    from wanted
    cross join lateral (
        select job_id, state, queue, priority, task, attempts, fence, ties
        from {{schema}}.outcome where outcome.job_id = wanted.id limit 1
    ) as outcome
    cross join lateral (
        select is_sink, is_bad, is_let_go, is_unsettled from {{schema}}.node
        where node.job_id = wanted.id and node.flow_id = $3::uuid limit 1
    ) as node
),
waiting as materialized (
    select asked.id
    from (select distinct id from unnest($7::uuid[]) as given (id)) as asked
    cross join lateral (
        select from {{schema}}.blocked where blocked.job_id = asked.id limit 1
    ) as waits
    cross join lateral (
        select from {{schema}}.node where node.job_id = asked.id and node.flow_id = $3::uuid limit 1
    ) as own
),
allowed as materialized (
    select flow.id from {{schema}}.flow
    where flow.id = $3::uuid and flow.epoch = $4::bigint and flow.state <> 'cancelling'
    and (select count(*) from ended) = (select count(*) from wanted)
    and not exists (select from ended as outcome where {{is_undone}})
    and (select count(*) from waiting)
        = (select count(distinct id) from unnest($7::uuid[]) as given (id))
    and not exists (
        select from {{schema}}.flow as other
        where other.unique_key = flow.unique_key and other.finished_at is null
        and other.id <> flow.id
    )
    and (flow.finished_at is not null or not exists (
        select from {{schema}}.errand
        where errand.flow_id = flow.id and errand.kind in ('losers', 'close')
    ))
),
again as materialized (
    select ended.* from ended cross join allowed where not goes
),
reopened as (
    update {{schema}}.flow
    set state = case when state = 'paused' then 'paused' else 'running' end,
        open = open + (select count(*) from again),
        total = total - (select count(*) from ended where goes),
        failed = failed - (
            select count(*) from ended
            where is_sink and (state in ('failed', 'expired', 'cancelled')
                or (state = 'skipped' and is_bad))
        ),
        epoch = epoch + 1, cancel_asked = false, finished_at = null, expires_at = null,
        reason = case when state = 'paused' then reason end
    where id = (select id from allowed)
    returning epoch
),
no_cancels as (
    delete from {{schema}}.errand
    where flow_id = (select id from allowed) and kind in ('losers', 'close')
),
gone as (
    delete from {{schema}}.outcome where job_id = any (array(select job_id from again))
),
no_gates as (
    delete from {{schema}}.gate where job_id = any (array(select waiting.id from waiting cross join allowed))
),
no_kept_gates as (
    delete from {{schema}}.skipped_gate
    where flow_id = (select id from allowed) and job_id = any (array(select job_id from ended))
),
not_bad as (
    update {{schema}}.node set is_bad = false, is_let_go = false, is_unsettled = false
    where job_id = any (array(select job_id from again where is_bad or is_let_go or is_unsettled))
),
no_deadline as (
    delete from {{schema}}.deadline where job_id = any (array(select job_id from again))
),
undated as (
    update {{schema}}.job set deadline_at = null
    where id = any (array(select job_id from again)) and deadline_at is not null
),
to_ready as (
    insert into {{schema}}.ready (job_id, queue, priority, task, fence, ties, since)
    select job_id, queue, priority, task, fence, ties & ~224, {{now}}
    from again where not waits order by job_id
),
to_blocked as (
    insert into {{schema}}.blocked (job_id, queue, priority, task, fence, ties)
    select job_id, queue, priority, task, fence, ties & ~224 from again where waits
),
{{unrecorded}},
counting as (
    select queue, task, state as source, case when waits then 'blocked' else 'ready' end as target,
        'requeued' as what
    from again
),
{{counted}},
happened as (
    select job_id, fence, null::timestamptz as claimed_at, null::timestamptz as due_at,
        null::uuid as worker_id, attempts as attempt, 'requeued' as what, $8::text as by,
        null::text as kind, state as message, null::text as traceback, null::text as fingerprint
    from again
),
{{told}},
now_ready as (
    select queue from again where not waits
),
now_timed as (
    select where false
),
{{woken}}
select reopened.epoch, woken.calls from reopened cross join woken
