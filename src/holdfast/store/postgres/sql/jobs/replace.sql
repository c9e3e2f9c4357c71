-- $1 now   $2 holders, in order of their ids   $3 who replaces each   $4 seconds to keep
-- Ends waiting holders as cancelled and gives their keys up; a holder that runs by now stands.
with old as materialized (
    select job_id, by from unnest($2::uuid[], $3::text[]) as given (job_id, by)
),
from_ready as (
    delete from {{schema}}.ready where job_id = any ($2::uuid[])
    returning job_id, queue, priority, task, attempts, crashes, fence
),
from_scheduled as (
    delete from {{schema}}.scheduled where job_id = any ($2::uuid[])
    returning job_id, queue, priority, task, attempts, crashes, fence
),
from_suspended as (
    delete from {{schema}}.suspended where job_id = any ($2::uuid[])
    returning job_id, queue, priority, task, attempts, crashes, fence
),
gone as materialized (
    select * from from_ready
    union all select * from from_scheduled
    union all select * from from_suspended
),
to_outcome as (
    insert into {{schema}}.outcome (job_id, state, queue, priority, task, attempts, crashes, fence,
        finished_at, expires_at, reason)
    select gone.job_id, 'cancelled', gone.queue, gone.priority, gone.task, gone.attempts,
        gone.crashes, gone.fence, coalesce($1::timestamptz, statement_timestamp()),
        coalesce($1::timestamptz, statement_timestamp()) + interval '1 second' * coalesce(
            (select retain_other from {{schema}}.queue where queue.name = gone.queue),
            -- by pattern: what is no JSON would end the statement for every other job in it
            substring(job.policy from '"retention":[{][^}]*"other":([0-9]{1,10}(?:[.][0-9]+)?)[,}]')::float8,
            $4::float8
        ),
        'replaced by ' || old.by
    from gone
    join old on old.job_id = gone.job_id
    join {{schema}}.job on job.id = gone.job_id
),
freed as (
    delete from {{schema}}.unique_key
    using gone join {{schema}}.job on job.id = gone.job_id
    where unique_key.key = job.unique_key and unique_key.job_id = gone.job_id
)
select job_id::text from gone
