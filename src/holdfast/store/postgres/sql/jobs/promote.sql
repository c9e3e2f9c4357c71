-- $1 now   $2 channel   $3 ids
-- uses: counted
-- As promote_due.sql, for named jobs: the promoter looks for the one job that breaks its batch.
with from_scheduled as (
    delete from {{schema}}.scheduled
    where job_id = any ($3::uuid[]) and due_at <= {{now}}
    returning job_id, queue, priority, task, attempts, crashes, fence, ties, due_at,
        'scheduled' as source
),
from_suspended as (
    delete from {{schema}}.suspended
    where job_id = any ($3::uuid[]) and wake_at <= {{now}}
    returning job_id, queue, priority, task, attempts, crashes, fence, ties, wake_at, 'suspended'
),
moved as materialized (
    select * from from_scheduled union all select * from from_suspended
),
to_ready as (
    insert into {{schema}}.ready
        (job_id, queue, priority, task, attempts, crashes, fence, ties, since)
    select job_id, queue, priority, task, attempts, crashes, fence, ties, {{now}}
    from moved order by due_at, job_id
),
counting as (
    select queue, task, source, 'ready' as target, 'promoted' as what from moved
),
{{counted}}
select count(*)::int as moved, pg_notify($2::text, 'ready:') from moved
