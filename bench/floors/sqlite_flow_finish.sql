update node set state = 2, finished_at = ? where id = ?
