select queue, task, state, sum(jobs)
from (
    select queue, task, state, count(*) as jobs from holdfast_place group by queue, task, state
    union all
    select queue, task, state, -jobs from holdfast_tally
    union all
    select queue, task, target, -jobs from holdfast_move where target <> ''
    union all
    select queue, task, source, jobs from holdfast_move where source <> ''
)
group by queue, task, state
having sum(jobs) <> 0
