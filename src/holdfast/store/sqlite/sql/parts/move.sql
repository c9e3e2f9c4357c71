insert into holdfast_move (minute, queue, task, source, target, what, jobs)
values (?, ?, ?, ?, ?, ?, ?)
on conflict do update set jobs = jobs + excluded.jobs
