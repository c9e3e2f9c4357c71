-- name: fences
select l.job_id, l.fence
from json_each(?) as wanted
cross join holdfast_lease as l on l.job_id = wanted.value

-- name: keep
insert into holdfast_progress (job_id, fraction, message, checkpoint, at)
values (?, ?, ?, ?, ?)
on conflict (job_id) do update set
    fraction = coalesce(excluded.fraction, fraction),
    message = coalesce(excluded.message, message),
    checkpoint = coalesce(excluded.checkpoint, checkpoint),
    at = excluded.at
