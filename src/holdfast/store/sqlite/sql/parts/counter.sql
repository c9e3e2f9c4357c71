-- name: bump
insert into holdfast_counter (topic, name, n)
values (?, ?, ?)
on conflict (topic, name) do update set n = n + excluded.n
returning n

-- name: arrivals
update holdfast_counter set n = n + ? where topic = 'arrival' and name = '' returning n

-- name: return
update holdfast_counter set n = n + 1 where topic = 'return' and name = ''

-- name: forget worker
delete from holdfast_counter where topic = 'cancel' and name = ?
