-- Changes jobs in every place where a job can wait. Takes the words `ids` and `change`; gives
-- `in_ready` and, for all places, `changed` (job_id).
in_ready as (
    update {{schema}}.ready set {{change}} where job_id = any ({{ids}}) returning job_id
),
in_scheduled as (
    update {{schema}}.scheduled set {{change}} where job_id = any ({{ids}}) returning job_id
),
in_suspended as (
    update {{schema}}.suspended set {{change}} where job_id = any ({{ids}}) returning job_id
),
in_blocked as (
    update {{schema}}.blocked set {{change}} where job_id = any ({{ids}}) returning job_id
),
changed as materialized (
    select job_id from in_ready
    union all select job_id from in_scheduled
    union all select job_id from in_suspended
    union all select job_id from in_blocked
)
