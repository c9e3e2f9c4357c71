-- Takes jobs out of every place where a job can wait. Expects `leaving` (job_id), and gives the rows
-- that were taken as `out_of_waiting`.
from_ready as (
    delete from {{schema}}.ready where job_id = any (array(select job_id from leaving))
    returning job_id, queue, priority, seq, task, attempts, crashes, fence, ties
),
from_scheduled as (
    delete from {{schema}}.scheduled where job_id = any (array(select job_id from leaving))
    returning job_id, queue, priority, null::bigint as seq, task, attempts, crashes, fence, ties
),
from_suspended as (
    delete from {{schema}}.suspended where job_id = any (array(select job_id from leaving))
    returning job_id, queue, priority, null::bigint as seq, task, attempts, crashes, fence, ties
),
{{each untimed}}
from_{{place}} as (
    delete from {{schema}}.{{place}} where job_id = any (array(select job_id from leaving))
    returning job_id, queue, priority, null::bigint as seq, task, attempts, crashes, fence, ties
),
{{end}}
out_of_waiting as materialized (
    select * from from_ready
    union all select * from from_scheduled
    union all select * from from_suspended
{{each untimed}}
    union all select * from from_{{place}}
{{end}}
)
