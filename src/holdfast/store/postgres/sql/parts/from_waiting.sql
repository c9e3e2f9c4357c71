-- Takes jobs out of every place where a job can wait. Expects `leaving` (job_id), and gives the rows
-- that were taken, with their place (`source`), as `out_of_waiting`.
from_ready as (
    delete from {{schema}}.ready where job_id = any (array(select job_id from leaving))
    returning job_id, queue, priority, seq, task, attempts, crashes, fence, ties, 'ready' as source
),
{{each unlined}}
from_{{place}} as (
    delete from {{schema}}.{{place}} where job_id = any (array(select job_id from leaving))
    returning job_id, queue, priority, null::bigint as seq, task, attempts, crashes, fence, ties,
        '{{place}}' as source
),
{{end}}
out_of_waiting as materialized (
    select * from from_ready
{{each unlined}}
    union all select * from from_{{place}}
{{end}}
)
