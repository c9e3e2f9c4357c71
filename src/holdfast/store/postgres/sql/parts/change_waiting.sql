-- Changes jobs in every place where a job can wait. Takes the words `ids` and `change`; gives
-- `changed` (job_id), and the rows that `woken` expects. Queues of ready jobs are woken, because a
-- claim passes by a row while it is being changed.
in_ready as (
    update {{schema}}.ready set {{change}} where job_id = any ({{ids}}) returning job_id, queue
),
now_ready as (
    select queue from in_ready
),
now_timed as (
    select where false
),
in_scheduled as (
    update {{schema}}.scheduled set {{change}} where job_id = any ({{ids}}) returning job_id
),
in_suspended as (
    update {{schema}}.suspended set {{change}} where job_id = any ({{ids}}) returning job_id
),
{{each untimed}}
in_{{place}} as (
    update {{schema}}.{{place}} set {{change}} where job_id = any ({{ids}}) returning job_id
),
{{end}}
changed as materialized (
    select job_id from in_ready
    union all select job_id from in_scheduled
    union all select job_id from in_suspended
{{each untimed}}
    union all select job_id from in_{{place}}
{{end}}
)
