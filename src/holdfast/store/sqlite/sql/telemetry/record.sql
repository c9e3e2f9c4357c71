-- name: closed
select closed from holdfast_rolling

-- name: measure
insert into holdfast_measure as old (minute, source, queue, task, number, times)
values (?, ?, ?, ?, ?, ?)
on conflict do update set number = excluded.number, times = excluded.times
where old.number < excluded.number
