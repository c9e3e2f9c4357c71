update holdfast_queue set paused = 1 where name = ?
