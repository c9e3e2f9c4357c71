-- name: leases
select job_id, fence, spent from holdfast_lease where job_id in (select value from json_each(?))

-- name: keep
update holdfast_lease set spent = ? where job_id = ?
