with one as (select line, queue, priority, seq from holdfast_ready where job_id = ?)
select count(*)
from (
    select 1
    from one
    cross join holdfast_ready as r
        on r.line = one.line and r.queue = one.queue and (r.priority, r.seq) < (one.priority, one.seq)
    limit ?
)
