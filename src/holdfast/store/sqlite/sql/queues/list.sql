-- name: settings
select name, paused, cool_until, throttles, settings from holdfast_queue

-- name: oldest
select queue, min(ready_at) from holdfast_ready group by queue
