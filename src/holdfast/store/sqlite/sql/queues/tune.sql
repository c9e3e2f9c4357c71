update holdfast_queue set settings = ?2 where name = ?1
