update holdfast_schedule set error = ?2, error_at = ?3 where name = ?1 and error is not ?2
