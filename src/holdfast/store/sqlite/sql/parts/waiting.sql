select state, job_id, queue, priority, seq, task, attempts, crashes, fence, ties
from holdfast_place
where not ended and state <> 'running' and job_id in (select value from json_each(?))
