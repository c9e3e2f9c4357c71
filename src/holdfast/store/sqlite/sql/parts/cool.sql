-- name: ensure
insert into holdfast_queue (name) values (?) on conflict do nothing

-- name: read
select cool_until, throttles, settings from holdfast_queue where name = ?

-- name: cool
update holdfast_queue set cool_until = ?, throttles = ? where name = ?
