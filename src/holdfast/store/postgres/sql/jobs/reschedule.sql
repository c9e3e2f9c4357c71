-- $1 now   $2 channel   $3 ids   $4 run at   $5 delays   $6 most seconds after its insertion (or null)
-- $7 who reschedules   $8 what its happening says (or null)
-- uses: counted happened_waiting told woken
-- let what: 'rescheduled'
-- let by: $7::text
-- let due: due_at
-- let message: $8::text
-- Makes scheduled or ready jobs due at another time. A scheduled job that is due now becomes ready, at
-- the end of its queue. A ready job that is due now keeps its position.
with given as materialized (
    select id, least(coalesce(run_at, {{now}} + greatest(delay, 0) * interval '1 second'),
        case when max_wait is not null then (
            select created_at + max_wait * interval '1 second' from {{schema}}.job
            where job.id = given.id
        ) end) as due_at
    from unnest($3::uuid[], $4::timestamptz[], $5::float8[], $6::float8[])
        as given (id, run_at, delay, max_wait)
),
asked as materialized (
    select id, due_at, due_at > {{now}} as later
    from given
),
stayed as materialized (
    select ready.job_id, ready.queue from {{schema}}.ready
    where ready.job_id = any (array(select id from asked where not later))
),
from_ready as (
    delete from {{schema}}.ready
    where job_id = any (array(select id from asked where later))
    returning job_id, queue, priority, task, attempts, crashes, fence, ties
),
from_scheduled as (
    delete from {{schema}}.scheduled
    where job_id = any (array(select id from asked where not later))
    returning job_id, queue, priority, task, attempts, crashes, fence, ties
),
to_scheduled as (
    insert into {{schema}}.scheduled
        (job_id, due_at, queue, priority, task, attempts, crashes, fence, ties, reason)
    select job_id, asked.due_at, queue, priority, task, attempts, crashes, fence, ties,
        'rescheduled'
    from from_ready join asked on asked.id = from_ready.job_id
),
to_ready as (
    insert into {{schema}}.ready
        (job_id, queue, priority, task, attempts, crashes, fence, ties, since)
    select job_id, queue, priority, task, attempts, crashes, fence, ties, {{now}}
    from from_scheduled order by job_id
),
put_off as materialized (
    select job_id, due_at, attempts, fence from {{schema}}.scheduled
    where job_id = any (array(select id from asked where later))
),
pushed as (
    update {{schema}}.scheduled set due_at = asked.due_at
    from asked
    where scheduled.job_id = asked.id and asked.later
    returning scheduled.job_id, scheduled.queue, scheduled.task, scheduled.due_at
),
moved as materialized (
    select job_id, false as is_ready, null::text as queue from from_ready
    union all select job_id, true, queue from from_scheduled
    union all select job_id, false, null::text from pushed
    union all select job_id, null, null::text from stayed
),
counting as (
    select queue, task, 'ready' as source, 'scheduled' as target, 'rescheduled' as what
    from from_ready
    union all
    select queue, task, 'scheduled', 'ready', 'rescheduled' from from_scheduled
    union all
    select queue, task, 'scheduled', 'scheduled', 'rescheduled' from pushed
),
{{counted}},
told_of as (
    select job_id, attempts, fence, asked.due_at from from_ready join asked on asked.id = job_id
    union all
    select job_id, attempts, fence, null from from_scheduled
    union all
    select job_id, attempts, fence, pushed.due_at from pushed join put_off using (job_id)
    where pushed.due_at <> put_off.due_at
),
{{happened_waiting}},
{{told}},
now_ready as (
    select queue from moved where is_ready
),
now_timed as (
    select from moved where not is_ready
),
{{woken}}
select moved.job_id::text, woken.calls from moved cross join woken
