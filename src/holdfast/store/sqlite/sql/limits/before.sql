select r.job_id, (
    select x.job_id from holdfast_ready as x
    where x.line = r.line and x.queue = r.queue and x.priority = r.priority
    order by x.seq
    limit 1
) as first
from holdfast_ready as r
where r.line <> 0 and r.job_id in (select value from json_each(?)) and r.job_id <> first
