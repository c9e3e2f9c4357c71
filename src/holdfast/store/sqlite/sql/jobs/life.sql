select
    h.job_id, h.at, h.what, h.attempt, h.fence, h.worker_id, h.claimed_at, h.due_at, h."by",
    h.kind, h.message, h.traceback, h.fingerprint
from json_each(?) as wanted
cross join holdfast_happening as h on h.job_id = wanted.value
order by h.job_id, h.n
