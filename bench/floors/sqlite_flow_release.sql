update job set state = 0 where id = ?
