-- $1 now   $2 channel   $3 ids   $4 who resumes
-- uses: wake_suspended counted happened_waiting told woken
-- let what: 'resumed'
-- let by: $4::text
-- let due: null::timestamptz
-- let message: null::text
with met as materialized (
    select job_id, null::text as signal from {{schema}}.suspended
    where job_id = any ($3::uuid[])
    order by job_id for update
),
{{wake_suspended}},
awake as (
    -- whatever it slept for is over
    update {{schema}}.step set until = {{now}}
    where job_id = any (array(select job_id from gone where ties & 32 <> 0)) and until > {{now}}
)
select gone.job_id, woken.calls from gone cross join woken
