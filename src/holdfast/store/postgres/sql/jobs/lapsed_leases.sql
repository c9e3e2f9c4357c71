-- $1 now   $2 limit   $3 after
select lease.job_id, 'running', lease.queue, lease.task, job.policy, lease.attempts,
    lease.crashes, lease.fence, lease.worker_id, lease.cancel_requested_at is not null, lease.ahead,
    lease.claimed_at
from (
    select * from {{schema}}.lease
    where job_id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    and not exists (
        select from {{schema}}.worker
        where worker.id = lease.worker_id and worker.expires_at > coalesce($1::timestamptz, now())
    )
    order by job_id limit $2::int
) as lease
join lateral (select policy from {{schema}}.job where job.id = lease.job_id limit 1) as job on true
order by lease.job_id
