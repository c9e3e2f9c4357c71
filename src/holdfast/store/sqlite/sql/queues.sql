-- name: ensure
insert into holdfast_queue (
    name, throttle_base, throttle_cap, retain_succeeded, retain_failed, retain_other
)
values (?, ?, ?, ?, ?, ?)
on conflict do nothing

-- name: pause
update holdfast_queue set paused = 1 where name = ?

-- name: resume
update holdfast_queue set paused = 0, cool_until = null, throttles = 0 where name = ?

-- name: tune
update holdfast_queue
set
    throttle_base = ?2,
    throttle_cap = ?3,
    retain_succeeded = ?4,
    retain_failed = ?5,
    retain_other = ?6
where name = ?1

-- name: list
select
    name, paused, cool_until, throttles,
    throttle_base, throttle_cap, retain_succeeded, retain_failed, retain_other
from holdfast_queue

-- name: counts
-- live places only: counting what has ended would read the whole history
select queue, 'ready', count(*) from holdfast_ready group by queue
union all
select queue, 'running', count(*) from holdfast_lease group by queue
union all
select queue, 'scheduled', count(*) from holdfast_scheduled group by queue
union all
select queue, 'suspended', count(*) from holdfast_suspended group by queue

-- name: oldest
select queue, min(ready_at) from holdfast_ready group by queue
