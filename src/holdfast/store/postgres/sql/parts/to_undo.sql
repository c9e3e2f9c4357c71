-- Owes that the steps of jobs are undone that end badly. Expects {{ended}} (job_id, ties) with the states
-- {{end_state}}.
to_undo as (
    insert into {{schema}}.errand (flow_id, kind, job_id, at)
    select overlay(job_id::text placing '9' from 15)::uuid, 'undo', job_id, {{now}}
    from {{ended}}
    where ties & 64 <> 0 and {{end_state}} in ('failed', 'cancelled', 'expired')
    order by job_id
)
