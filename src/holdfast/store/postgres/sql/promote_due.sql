-- $1 now   $2 channel   $3 limit
-- Due rows that another promoter is moving right now are skipped: it will finish with them.
with due_scheduled as materialized (
    select job_id, due_at, false as was_suspended from {{schema}}.scheduled
    where due_at <= coalesce($1::timestamptz, statement_timestamp())
    order by due_at limit $3::int
    for update skip locked
),
due_suspended as materialized (
    select job_id, wake_at, true from {{schema}}.suspended
    where wake_at <= coalesce($1::timestamptz, statement_timestamp())
    order by wake_at limit $3::int
    for update skip locked
),
due as (
    select * from due_scheduled union all select * from due_suspended
),
first as materialized (
    select * from due order by due_at, job_id limit $3::int
),
from_scheduled as (
    delete from {{schema}}.scheduled
    where job_id = any (array(select job_id from first where not was_suspended))
    returning job_id, queue, priority, task, attempts, crashes, fence, due_at
),
from_suspended as (
    delete from {{schema}}.suspended
    where job_id = any (array(select job_id from first where was_suspended))
    returning job_id, queue, priority, task, attempts, crashes, fence, wake_at
),
moved as materialized (
    select * from from_scheduled union all select * from from_suspended
),
to_ready as (
    insert into {{schema}}.ready (job_id, queue, priority, task, attempts, crashes, fence, since)
    select job_id, queue, priority, task, attempts, crashes, fence,
        coalesce($1::timestamptz, statement_timestamp())
    from moved order by due_at, job_id
),
summed as materialized (
    select count(*)::int as moved, coalesce(array_agg(distinct queue), '{}') as queues from moved
)
select summed.moved, summed.queues,
    case when summed.moved >= $3::int then 0 else extract(epoch from least(
        (select due_at from {{schema}}.scheduled
         where due_at > coalesce($1::timestamptz, statement_timestamp()) and due_at < 'infinity'
         order by due_at limit 1),
        (select wake_at from {{schema}}.suspended
         where wake_at > coalesce($1::timestamptz, statement_timestamp()) and wake_at < 'infinity'
         order by wake_at limit 1)
    ) - coalesce($1::timestamptz, statement_timestamp()))::float8 end as next_due_in,
    case when summed.moved > 0 then pg_notify($2::text,
        case when length(array_to_string(queues, ',')) < 2000
        then 'ready:' || array_to_string(queues, ',') || case when summed.moved = 1 then '=1' else '' end
        else 'ready:' end) end as woken
from summed
