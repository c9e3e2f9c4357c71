select queue, task, state, sum(jobs)
from (
    select queue, task, state, jobs from holdfast_tally
    union all
    select queue, task, target, jobs from holdfast_move where target <> ''
    union all
    select queue, task, source, -jobs from holdfast_move where source <> ''
)
where :queues is null or queue in (select value from json_each(:queues))
group by queue, task, state
having sum(jobs) <> 0
