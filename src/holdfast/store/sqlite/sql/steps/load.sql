select s.job_id, s.name, s.n, s.fence, s.tries, s.result, s.kind, s.message, s.version, s.until, s.at,
    s.awaits, s.undo
from json_each(?) as wanted
cross join holdfast_step as s on s.job_id = wanted.value
order by s.job_id, s.n, s.name
