-- $1 now   $2 channel   $3 ids   $4 who resumes
-- uses: counted happened_waiting told woken
-- let what: 'resumed'
-- let by: $4::text
-- let due: null::timestamptz
-- let message: null::text
with moved as materialized (
    select job_id from {{schema}}.suspended
    where job_id = any ($3::uuid[])
    order by job_id for update
),
gone as (
    delete from {{schema}}.suspended where job_id = any (array(select job_id from moved))
    returning job_id, queue, priority, task, attempts, crashes, fence, ties
),
to_ready as (
    insert into {{schema}}.ready
        (job_id, queue, priority, task, attempts, crashes, fence, ties, since)
    select job_id, queue, priority, task, attempts, crashes, fence, ties, {{now}}
    from gone order by job_id
),
awake as (
    -- whatever it slept for is over
    update {{schema}}.step set until = {{now}}
    where job_id = any (array(select job_id from gone where ties & 32 <> 0)) and until > {{now}}
),
counting as (
    select queue, task, 'suspended' as source, 'ready' as target, 'resumed' as what from gone
),
{{counted}},
told_of as (
    select job_id, attempts, fence from gone
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
select gone.job_id, woken.calls from gone cross join woken
