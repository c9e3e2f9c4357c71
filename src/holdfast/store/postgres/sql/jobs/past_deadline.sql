-- $1 now   $2 limit   $3 after
-- uses: live_columns
-- Deadlines of jobs that have ended or were removed are dropped on the way. They are answered without
-- a state, so that the caller knows how far the page reached.
with past as materialized (
    select job_id from {{schema}}.deadline
    where at <= {{now}}
    and job_id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    and not exists (
        -- its worker may have decided an end in time that it has yet to write
        select from {{schema}}.lease join {{schema}}.worker on worker.id = lease.worker_id
        where lease.job_id = deadline.job_id and deadline.at >= worker.written_until
    )
    order by job_id limit $2::int
),
seen as materialized (
    select past.job_id as asked_id, place.*
    from past
    left join lateral (
        select * from {{schema}}.place
        where place.job_id = past.job_id and not place.ended
        limit 1
    ) as place on true
),
dropped as (
    delete from {{schema}}.deadline
    where job_id = any (array(select asked_id from seen where state is null))
)
select place.asked_id, {{live_columns}}
from seen as place
left join lateral (select policy from {{schema}}.job where job.id = place.asked_id limit 1) as job
    on true
order by place.asked_id
