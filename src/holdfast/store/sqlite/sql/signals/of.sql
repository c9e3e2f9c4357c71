select s.job_id, s.n, s.name, s.value, s.key, s.taken_by, s.at
from json_each(?) as wanted
cross join holdfast_signal as s on s.job_id = wanted.value
order by s.job_id, s.n
