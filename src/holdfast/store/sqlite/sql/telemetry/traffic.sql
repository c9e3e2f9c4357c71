select minute, queue, task, what, sum(jobs)
from (
    select minute, queue, task, what, jobs from holdfast_traffic where minute >= :since and minute < :until
    union all
    select max(minute, closed), queue, task, what, jobs from holdfast_move cross join holdfast_rolling
)
where minute >= :since and minute < :until
group by minute, queue, task, what
