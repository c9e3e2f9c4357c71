-- name: beat
update holdfast_worker
set
    heartbeat_at = :now,
    expires_at = :expires_at,
    lease = :expires_at - :now,
    alive_since = iif(
        expires_at > :now and :now >= heartbeat_at and 2 * (:now - heartbeat_at) <= lease,
        alive_since,
        :now
    ),
    written_until = iif(:caught_up, heartbeat_at, written_until),
    facts = :facts
where id = :worker
returning drain_requested_at

-- name: held
select l.job_id, l.fence, l.worker_id, l.cancel_requested_at is not null
from json_each(?) as wanted
cross join holdfast_lease as l on l.job_id = wanted.value
