-- $1 now   $2 limit   $3 after
-- uses: live_columns
select {{live_columns}}
from (
    select *, 'running'::text as state from {{schema}}.lease
    where job_id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    and not exists (
        select from {{schema}}.worker
        where worker.id = lease.worker_id and worker.expires_at > {{now}}
    )
    order by job_id limit $2::int
) as place
join lateral (select policy from {{schema}}.job where job.id = place.job_id limit 1) as job on true
order by place.job_id
