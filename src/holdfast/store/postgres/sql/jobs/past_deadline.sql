-- $1 now   $2 limit   $3 after
-- Entries of jobs that ended (or were removed) are dropped on the way, and answered without a
-- state, so that the caller knows how far it got.
with past as materialized (
    select job_id from {{schema}}.deadline
    where at <= coalesce($1::timestamptz, now())
    and job_id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    and not exists (
        -- its worker may still have an end to write that was decided in time
        select from {{schema}}.lease join {{schema}}.worker on worker.id = lease.worker_id
        where lease.job_id = deadline.job_id and deadline.at >= worker.written_until
    )
    order by job_id limit $2::int
),
seen as materialized (
    select past.job_id, place.state, place.queue, place.task, place.attempts, place.crashes,
        place.fence, place.worker_id, place.cancel_requested_at, place.ahead,
        place.claimed_at
    from past
    left join lateral (
        select * from {{schema}}.place
        where place.job_id = past.job_id
        and place.state in ('ready', 'running', 'scheduled', 'suspended')
        limit 1
    ) as place on true
),
dropped as (
    delete from {{schema}}.deadline
    where job_id = any (array(select job_id from seen where state is null))
)
select seen.job_id, seen.state, seen.queue, seen.task, job.policy, seen.attempts, seen.crashes,
    seen.fence, seen.worker_id, seen.cancel_requested_at is not null, seen.ahead,
    seen.claimed_at
from seen
left join lateral (select policy from {{schema}}.job where job.id = seen.job_id limit 1) as job
    on true
order by seen.job_id
