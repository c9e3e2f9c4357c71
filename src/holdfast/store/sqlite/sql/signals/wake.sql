-- Jobs that are suspended for a signal which is kept, each with the name of the signal.
select
    s.name, 'suspended', p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts, p.crashes, p.fence,
    p.ties
from json_each(?) as wanted
cross join holdfast_suspended as p on p.job_id = wanted.value
cross join holdfast_step as w on w.job_id = p.job_id and w.fence = p.fence
cross join holdfast_signal as s on s.job_id = w.job_id and s.name = w.awaits
where s.taken_by is null
order by p.job_id, s.n
