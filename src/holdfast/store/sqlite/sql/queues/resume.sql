update holdfast_queue set paused = 0, cool_until = null, throttles = 0 where name = ?
