-- name: beat
update holdfast_worker
set
    heartbeat_at = ?2,
    expires_at = ?3,
    lease = ?3 - ?2,
    alive_since = iif(
        expires_at > ?2 and ?2 >= heartbeat_at and 2 * (?2 - heartbeat_at) <= lease,
        alive_since,
        ?2
    ),
    written_until = iif(?4, heartbeat_at, written_until),
    stuck = ?5
where id = ?1
returning id

-- name: held
select l.job_id, l.fence, l.worker_id, l.cancel_requested_at is not null
from json_each(?) as wanted
cross join holdfast_lease as l on l.job_id = wanted.value
