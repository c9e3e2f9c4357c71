select name from holdfast_queue where paused and substr(name, 1, 1) = '*'
