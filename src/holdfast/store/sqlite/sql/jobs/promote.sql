select due_at, state, job_id, queue, priority, seq, task, attempts, crashes, fence, ties
from holdfast_place
where due_at <= ? and job_id in (select value from json_each(?))
order by due_at, job_id
