-- name: due
select
    rolled,
    closed,
    (select min(minute) from holdfast_traffic where minute >= rolled),
    (select min(minute) from holdfast_measure where minute >= rolled),
    (select min(minute) from holdfast_move)
from holdfast_rolling

-- name: close
update holdfast_rolling set closed = :closed where closed < :closed

-- name: counted
select minute, queue, task, what, jobs from holdfast_traffic where minute = ?

-- name: measured
select minute, queue, task, times from holdfast_measure where minute = ?
order by queue, task

-- name: points
select at, queue, task, counts, times from holdfast_series
where step = :step and grain in ('all', 'queue', 'task') and at = :at

-- name: ever
select e.queue, e.task, e.times
from json_each(:pairs) as pair
join holdfast_ever as e on e.queue = json_extract(pair.value, '$[0]') and e.task = json_extract(pair.value, '$[1]')

-- name: roll
update holdfast_rolling set rolled = :next where rolled = :rolled

-- name: point
insert into holdfast_series (step, at, queue, task, grain, counts, times)
values (?, ?, ?, ?, ?, ?, ?)
on conflict do update set counts = excluded.counts, times = excluded.times

-- name: add ever
insert into holdfast_ever (queue, task, times) values (?, ?, ?)
on conflict do update set times = excluded.times

-- name: forget measures
delete from holdfast_measure where minute < ?
