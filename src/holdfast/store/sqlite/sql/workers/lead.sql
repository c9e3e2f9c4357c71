insert into holdfast_leader (role, worker_id, expires_at)
values (?, ?, ?)
on conflict (role) do update set worker_id = excluded.worker_id, expires_at = excluded.expires_at
where holdfast_leader.worker_id = excluded.worker_id or holdfast_leader.expires_at <= ?
returning role
