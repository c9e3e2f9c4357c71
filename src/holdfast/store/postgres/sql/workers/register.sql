-- $1 now   $2 id   $3 name   $4 host   $5 pid   $6 queues   $7 tasks   $8 version   $9 lease   $10 facts
-- $11 channel
with registered as (
    insert into {{schema}}.worker
        (id, name, host, pid, queues, tasks, version, started_at, heartbeat_at, expires_at, lease,
            alive_since, written_until, facts)
    values ($2::uuid, $3::text, $4::text, $5::int, $6::text, $7::text[], $8::text,
        {{now}}, {{now}},
        {{now}} + $9::float8 * interval '1 second', $9::float8,
        {{now}}, {{now}}, $10::text)
    on conflict (id) do update
    set heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at,
        lease = excluded.lease, queues = excluded.queues, tasks = excluded.tasks,
        facts = excluded.facts
)
select pg_notify($11::text, 'fleet:')
