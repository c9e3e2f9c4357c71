-- name: ensure
insert into holdfast_queue (name, throttle_base, throttle_cap) values (?, ?, ?) on conflict do nothing

-- name: read
select cool_until, throttles, throttle_base, throttle_cap from holdfast_queue where name = ?

-- name: cool
update holdfast_queue set cool_until = ?2, throttles = ?3 where name = ?1
