-- $1 now
select count(*)::int from {{schema}}.lease
where not exists (
    select from {{schema}}.worker
    where worker.id = lease.worker_id and worker.expires_at > {{now}}
)
