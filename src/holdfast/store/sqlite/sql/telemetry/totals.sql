select queue, task, what, sum(jobs)
from (
    select queue, task, what, jobs from holdfast_total
    union all
    select queue, task, what, jobs from holdfast_move
)
group by queue, task, what
