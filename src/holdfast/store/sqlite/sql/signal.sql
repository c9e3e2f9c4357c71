-- name: bump
insert into signal (topic, name, n)
values (?, ?, 1)
on conflict (topic, name) do update set n = n + 1
returning n

-- name: read
select topic, name, n from signal

-- name: forget worker
delete from signal where topic = 'cancel' and name = ?
