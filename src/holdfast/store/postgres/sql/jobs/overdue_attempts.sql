-- $1 now   $2 limit   $3 after   $4 slack
-- uses: live_columns
select {{live_columns}}
from (
    select *, 'running'::text as state from {{schema}}.lease
    where job_id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    and timeout_at < {{now}} - $4::float8 * interval '1 second'
    and not exists (
        -- its worker may have decided an end in time that it has yet to write
        select from {{schema}}.worker
        where worker.id = lease.worker_id
        and timeout_at >= worker.written_until - $4::float8 * interval '1 second'
    )
    order by job_id limit $2::int
) as place
join lateral (select policy from {{schema}}.job where job.id = place.job_id limit 1) as job on true
order by place.job_id
