-- $1 now   $2 job ids   $3 fences   $4 results   $5 seconds to keep
-- The hot end of an attempt: it returned. Every other end goes through finish.sql.
-- A lease row's fence never changes in place (a reclaim deletes the row), so what the guard saw
-- and what the delete finds, under one snapshot, are the same lease.
with held as materialized (
    -- the guard: an old fence finds no row and so writes nothing. One key lookup per job by lateral
    -- with a constant limit: a plain join is planned as a walk of all leases when statistics, taken
    -- at a quiet moment, say that there are none
    select ended.result, ended.keep, mine.*
    from unnest($2::uuid[], $3::bigint[], $4::text[], $5::float8[])
        as ended (job_id, fence, result, keep)
    cross join lateral (
        select job_id, queue, priority, task, attempts, crashes, fence, claimed_at
        from {{schema}}.lease
        where lease.job_id = ended.job_id and lease.fence = ended.fence
        limit 1
    ) as mine
),
tuned as materialized (
    select name, retain_succeeded from {{schema}}.queue where retain_succeeded is not null
),
closed as (
    -- by key, not by ctid: a cancel request may move the row meanwhile, and the end still counts
    delete from {{schema}}.lease
    where job_id = any (array(select job_id from held))
    returning job_id
)
-- "is true" keeps the subquery a hashed lookup; as a join it could become a loop in a loop
insert into {{schema}}.outcome (job_id, state, queue, priority, task, attempts, crashes, fence,
    claimed_at, finished_at, expires_at, result)
select job_id, 'succeeded', queue, priority, task, attempts + 1, crashes, fence, claimed_at,
    coalesce($1::timestamptz, now()),
    coalesce($1::timestamptz, now()) + interval '1 second'
        * coalesce((select retain_succeeded from tuned where tuned.name = held.queue), keep),
    result
from held
where (job_id in (select job_id from closed)) is true
returning job_id, fence
