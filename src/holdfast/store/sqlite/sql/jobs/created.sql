select created_at from holdfast_job where id = ?
