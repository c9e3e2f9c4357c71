-- $1 now   $2 channel   $3 ids   $4 who asks   $5 why, of each (or null)
-- uses: told
-- Of several requests the time of the first is kept.
with running as materialized (
    select job_id, attempts, fence, claimed_at, worker_id, cancel_requested_at from {{schema}}.lease
    where job_id = any ($3::uuid[]) order by job_id for update
),
marked as (
    update {{schema}}.lease
    set cancel_requested_at = coalesce(cancel_requested_at, {{now}})
    where job_id = any (array(select job_id from running))
    returning job_id, worker_id
),
counted as (
    -- in the order of names, so that two cancels never wait for each other in a ring; not for a
    -- worker that is gone, since nobody would remove its counter
    insert into {{schema}}.counter as kept (topic, name)
    select 'cancel', worker.id::text from {{schema}}.worker
    where worker.id in (select worker_id from marked) order by worker.id::text
    on conflict (topic, name) do update set n = kept.n + 1
),
happened as (
    select running.job_id, running.fence, running.claimed_at, null::timestamptz as due_at,
        running.worker_id, running.attempts + 1 as attempt, 'cancel_asked' as what, $4::text as by,
        null::text as kind, asked.why as message, null::text as traceback,
        null::text as fingerprint
    from running
    join unnest($3::uuid[], $5::text[]) as asked (job_id, why) on asked.job_id = running.job_id
    where running.cancel_requested_at is null
),
{{told}},
woken as (
    select count(pg_notify($2::text, 'cancel:' || worker_id)) as calls
    from (select distinct worker_id from marked) as workers
)
select marked.job_id, woken.calls from marked cross join woken
