-- name: register
insert into holdfast_worker (
    id, name, host, pid, queues, tasks, version,
    started_at, heartbeat_at, expires_at, lease, alive_since, written_until
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?9 - ?8, ?8, ?8)
on conflict (id) do update set
    name = excluded.name,
    host = excluded.host,
    pid = excluded.pid,
    queues = excluded.queues,
    tasks = excluded.tasks,
    version = excluded.version,
    heartbeat_at = excluded.heartbeat_at,
    expires_at = excluded.expires_at,
    lease = excluded.lease

-- name: heartbeat
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

-- name: deregister
delete from holdfast_worker where id = ?

-- name: list
select
    w.id, w.name, w.host, w.pid, w.queues, w.tasks, w.version,
    w.started_at, w.heartbeat_at, w.expires_at, coalesce(held.number, 0), w.lease, w.alive_since,
    w.stuck
from holdfast_worker as w
left join (
    select worker_id, count(*) as number from holdfast_lease group by worker_id
) as held on held.worker_id = w.id
order by w.started_at, w.id

-- name: shorten
update holdfast_worker set expires_at = ?1 + lease where expires_at > ?1 + lease

-- name: sweep
delete from holdfast_worker
where id in (
    select w.id
    from holdfast_worker as w
    where w.expires_at < ?1 and w.id not in (select worker_id from holdfast_lease)
    order by w.expires_at
    limit ?2
)
returning id

-- name: lead
insert into holdfast_leader (role, worker_id, expires_at)
values (?1, ?2, ?3)
on conflict (role) do update set worker_id = excluded.worker_id, expires_at = excluded.expires_at
where holdfast_leader.worker_id = excluded.worker_id or holdfast_leader.expires_at <= ?4
returning role

-- name: stop leading
delete from holdfast_leader where role = ? and worker_id = ? returning role
