-- name: leases
select job_id, buckets, costs from holdfast_lease where queue = ?

-- name: receipt
update holdfast_lease set buckets = ?, costs = ?, ties = ties | 2 where job_id = ?
