update job set state = 2, finished_at = ?1 where id = ?2
