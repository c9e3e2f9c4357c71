-- $1 now   $2 channel   $3 ids
-- Of several requests the time of the first is kept.
with running as materialized (
    select job_id from {{schema}}.lease where job_id = any ($3::uuid[]) order by job_id for update
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
woken as (
    select count(pg_notify($2::text, 'cancel:' || worker_id)) as calls
    from (select distinct worker_id from marked) as workers
)
select marked.job_id, woken.calls from marked cross join woken
