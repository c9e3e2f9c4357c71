select queue, task, what, sum(jobs)::bigint as jobs
from (
    select queue, task, what, jobs from {{schema}}.total
    union all
    select queue, task, what, jobs from {{schema}}.move
) as every_one
group by queue, task, what
