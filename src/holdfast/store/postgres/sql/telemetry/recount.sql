-- uses: tallied
with {{tallied}}
select queue, task, state, sum(jobs)::bigint as jobs
from (
    select queue, task, state, count(*) as jobs from {{schema}}.place group by queue, task, state
    union all
    select queue, task, state, -jobs from tallied
) as differences
group by queue, task, state
having sum(jobs) <> 0
