-- $1 now   $2 worker   $3 numbers of claims whose reply was lost
-- The jobs that those claims took, in the columns of claim.sql.
select lease.job_id::text, lease.task, lease.queue, lease.priority, job.args, job.policy,
    lease.attempts, lease.crashes, lease.fence, date_part('epoch', job.created_at) as created_at,
    date_part('epoch', lease.since) as ready_at, date_part('epoch', lease.claimed_at) as claimed_at,
    case when job.deadline_at > {{calendar_end}} then {{calendar_end}} else job.deadline_at end
        as deadline_at,
    case when cardinality(job.tags) > 0 then job.tags end as tags, job.headers,
    progress.checkpoint, lease.ahead, lease.ties, lease.seq, lease.batch
from {{schema}}.lease
join {{schema}}.job on job.id = lease.job_id
left join {{schema}}.progress on progress.job_id = lease.job_id
where lease.worker_id = $2::uuid and lease.batch = any ($3::bigint[])
and exists (
    select from {{schema}}.worker
    where id = $2::uuid and expires_at > {{now}}
)
order by lease.priority, lease.seq
