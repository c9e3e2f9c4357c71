-- name: bump
insert into holdfast_signal (topic, name, n)
values (?, ?, ?)
on conflict (topic, name) do update set n = n + excluded.n
returning n

-- name: arrivals
update holdfast_signal set n = n + ? where topic = 'arrival' and name = '' returning n

-- name: return
update holdfast_signal set n = n + 1 where topic = 'return' and name = ''

-- name: forget worker
delete from holdfast_signal where topic = 'cancel' and name = ?
