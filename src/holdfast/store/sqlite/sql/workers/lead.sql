insert into holdfast_leader (role, worker_id, expires_at)
values (?1, ?2, ?3)
on conflict (role) do update set worker_id = excluded.worker_id, expires_at = excluded.expires_at
where holdfast_leader.worker_id = excluded.worker_id or holdfast_leader.expires_at <= ?4
returning role
