-- name: settings
select
    name, paused, cool_until, throttles,
    throttle_base, throttle_cap, retain_succeeded, retain_failed, retain_other
from holdfast_queue

-- name: oldest
select queue, min(ready_at) from holdfast_ready group by queue
