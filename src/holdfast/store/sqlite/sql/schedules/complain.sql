update holdfast_schedule
set error = :error, error_at = :since
where name = :name and error is not :error
