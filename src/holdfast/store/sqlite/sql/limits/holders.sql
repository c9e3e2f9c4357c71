select job_id, task, worker_id, claimed_at
from holdfast_lease
where buckets is not null and instr(char(10) || buckets || char(10), char(10) || ? || char(10)) > 0
order by claimed_at, job_id
limit ?
