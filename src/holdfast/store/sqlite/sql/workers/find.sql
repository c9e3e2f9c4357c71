select
    w.id, w.name, w.host, w.pid, w.queues, w.tasks, w.version,
    w.started_at, w.heartbeat_at, w.expires_at, coalesce(held.number, 0), w.lease, w.alive_since,
    w.facts, w.drain_requested_at
from holdfast_worker as w
left join (
    select worker_id, count(*) as number from holdfast_lease group by worker_id
) as held on held.worker_id = w.id
order by w.started_at, w.id
