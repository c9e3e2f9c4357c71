with one as (select queue, priority, seq from ready where job_id = ?1)
select count(*)
from (
    select 1
    from one
    cross join ready as r
        on r.queue = one.queue and (r.priority, r.seq) < (one.priority, one.seq)
    limit ?2
)
