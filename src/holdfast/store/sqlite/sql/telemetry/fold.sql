-- name: anything
select
    exists (select 1 from holdfast_move where minute < ?)
    or exists (
        select 1 from holdfast_traffic
        where minute < min(?, (select rolled from holdfast_rolling))
    )

-- name: closed
select closed from holdfast_rolling

-- name: moves
select minute, queue, task, source, target, what, jobs
from holdfast_move
where minute < ?
order by minute, queue, task, source, target, what
limit ?

-- name: tally
insert into holdfast_tally (queue, task, state, jobs)
values (?, ?, ?, ?)
on conflict do update set jobs = jobs + excluded.jobs

-- name: forget empty
delete from holdfast_tally where jobs = 0

-- name: total
insert into holdfast_total (queue, task, what, jobs)
values (?, ?, ?, ?)
on conflict do update set jobs = jobs + excluded.jobs

-- name: traffic
insert into holdfast_traffic (minute, queue, task, what, jobs)
values (?, ?, ?, ?, ?)
on conflict do update set jobs = jobs + excluded.jobs

-- name: forget move
delete from holdfast_move
where minute = ? and queue = ? and task = ? and source = ? and target = ? and what = ?

-- name: forget traffic
delete from holdfast_traffic
where (minute, queue, task, what) in (
    select minute, queue, task, what from holdfast_traffic
    where minute < min(?, (select rolled from holdfast_rolling))
    limit ?
)
