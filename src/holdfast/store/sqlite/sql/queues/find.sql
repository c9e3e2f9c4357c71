-- name: settings
select name, paused, cool_until, throttles, settings from holdfast_queue where substr(name, 1, 1) <> ?

-- name: oldest
select queue, min(ready_at) from holdfast_ready group by queue
