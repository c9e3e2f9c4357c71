-- name: settings
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
