select due_at, state, job_id, queue, priority, seq, task, attempts, crashes, fence, ties
from holdfast_place
where state in ('ready', 'scheduled') and not ended and job_id in (select value from json_each(?))
