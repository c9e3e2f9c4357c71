-- name: outcome
delete from holdfast_outcome where job_id = ?

-- name: happening
delete from holdfast_happening where job_id = ?

-- name: progress
delete from holdfast_progress where job_id = ?

-- name: deadline
delete from holdfast_deadline where job_id = ?

-- name: job
delete from holdfast_job where id = ?

-- name: key
delete from holdfast_unique_key where key = ? and job_id = ?
