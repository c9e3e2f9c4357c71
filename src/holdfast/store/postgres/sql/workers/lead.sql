-- $1 now   $2 role   $3 worker   $4 seconds
insert into {{schema}}.leader as seat (role, worker_id, expires_at)
values ($2::text, $3::uuid, {{now}} + $4::float8 * interval '1 second')
on conflict (role) do update
set worker_id = excluded.worker_id, expires_at = excluded.expires_at
where seat.worker_id = excluded.worker_id or seat.expires_at <= {{now}}
returning role
