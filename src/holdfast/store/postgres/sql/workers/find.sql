-- $1 now
select worker.id, name, host, pid, queues, tasks, version, started_at, heartbeat_at,
    extract(epoch from expires_at - {{now}})::float8 as expires_in,
    coalesce(held.running, 0) as running, lease, alive_since, facts, drain_requested_at,
    {{now}} as read_at
from {{schema}}.worker
left join (
    select worker_id, count(*)::int as running from {{schema}}.lease group by worker_id
) as held on held.worker_id = worker.id
order by started_at, worker.id
