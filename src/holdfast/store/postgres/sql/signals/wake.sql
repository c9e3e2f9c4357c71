-- $1 now   $2 channel   $3 ids   $4 who sends
-- uses: counted happened_waiting told woken
-- let what: 'resumed'
-- let by: $4::text
-- let due: null::timestamptz
-- let message: 'signal ' || signal
-- Makes jobs ready that are suspended for a signal which is kept.
with moved as materialized (
    select job_id, fence from {{schema}}.suspended
    where job_id = any ($3::uuid[])
    order by job_id for update
),
met as materialized (
    select moved.job_id, (array_agg(signal.name order by signal.n))[1] as signal
    from moved
    join {{schema}}.step as wait on wait.job_id = moved.job_id and wait.fence = moved.fence
    join {{schema}}.signal on signal.job_id = wait.job_id and signal.name = wait.awaits
    where signal.taken_by is null
    group by moved.job_id
),
gone as (
    delete from {{schema}}.suspended where job_id = any (array(select job_id from met))
    returning job_id, queue, priority, task, attempts, crashes, fence, ties
),
to_ready as (
    insert into {{schema}}.ready
        (job_id, queue, priority, task, attempts, crashes, fence, ties, since)
    select job_id, queue, priority, task, attempts, crashes, fence, ties, {{now}}
    from gone order by job_id
),
counting as (
    select queue, task, 'suspended' as source, 'ready' as target, 'resumed' as what from gone
),
{{counted}},
told_of as (
    select gone.job_id, gone.attempts, gone.fence, met.signal
    from gone join met on met.job_id = gone.job_id
),
{{happened_waiting}},
{{told}},
now_ready as (
    select queue from gone
),
now_timed as (
    select where false
),
{{woken}}
select met.job_id::text, met.signal, woken.calls
from gone join met on met.job_id = gone.job_id cross join woken
