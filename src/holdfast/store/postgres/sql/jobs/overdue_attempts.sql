-- $1 now   $2 limit   $3 after   $4 slack
select lease.job_id, 'running', lease.queue, lease.task, job.policy, lease.attempts,
    lease.crashes, lease.fence, lease.worker_id, lease.cancel_requested_at is not null, lease.ahead,
    lease.claimed_at
from (
    select * from {{schema}}.lease
    where job_id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    and timeout_at < coalesce($1::timestamptz, now()) - $4::float8 * interval '1 second'
    and not exists (
        -- its worker may still have an end to write that was decided in time
        select from {{schema}}.worker
        where worker.id = lease.worker_id
        and timeout_at >= worker.written_until - $4::float8 * interval '1 second'
    )
    order by job_id limit $2::int
) as lease
join lateral (select policy from {{schema}}.job where job.id = lease.job_id limit 1) as job on true
order by lease.job_id
