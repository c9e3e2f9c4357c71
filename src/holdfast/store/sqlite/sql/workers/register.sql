insert into holdfast_worker (
    id, name, host, pid, queues, tasks, version,
    started_at, heartbeat_at, expires_at, lease, alive_since, written_until, facts
)
values (
    :id, :name, :host, :pid, :queues, :tasks, :version,
    :now, :now, :expires_at, :expires_at - :now, :now, :now, :facts
)
on conflict (id) do update set
    name = excluded.name,
    host = excluded.host,
    pid = excluded.pid,
    queues = excluded.queues,
    tasks = excluded.tasks,
    version = excluded.version,
    heartbeat_at = excluded.heartbeat_at,
    expires_at = excluded.expires_at,
    lease = excluded.lease,
    facts = excluded.facts
