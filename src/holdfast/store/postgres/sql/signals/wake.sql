-- $1 now   $2 channel   $3 ids   $4 who sends
-- uses: wake_suspended counted happened_waiting told woken
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
{{wake_suspended}}
select met.job_id::text, woken.calls
from gone join met on met.job_id = gone.job_id cross join woken
