-- name: one
select state from holdfast_place where job_id = ?

-- name: many
select job_id, state, fence from holdfast_place where job_id in (select value from json_each(?))
