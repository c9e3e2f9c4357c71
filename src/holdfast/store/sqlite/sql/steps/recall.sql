-- The steps of jobs, and then their signals, whose values are called `result` here.
with wanted as (
    select value as job_id from json_each(?)
)
select s.job_id, 1 as is_step, s.name, s.n, s.fence, s.tries, s.result, s.kind, s.message, s.version,
    s.until, s.at, s.awaits, s.undo, null, null
from wanted
cross join holdfast_step as s on s.job_id = wanted.job_id
union all
select s.job_id, 0, s.name, s.n, null, null, s.value, null, null, null, null, s.at, null, null, s.key,
    s.taken_by
from wanted
cross join holdfast_signal as s on s.job_id = wanted.job_id
order by 1, 2 desc, 4, 3
