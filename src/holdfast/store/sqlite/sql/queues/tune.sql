update holdfast_queue set settings = ? where name = ?
