-- $1 now   $2 worker   $3 lease   $4 ids held   $5 fences held   $6 caught up   $7 facts
with extended as (
    update {{schema}}.worker
    set heartbeat_at = {{now}},
        expires_at = {{now}} + $3::float8 * interval '1 second',
        lease = $3::float8,
        alive_since = case
            when expires_at > {{now}}
            and {{now}} between heartbeat_at
                and heartbeat_at + lease / 2 * interval '1 second'
            then alive_since else {{now}} end,
        written_until = case when $6::boolean then heartbeat_at else written_until end,
        facts = $7::text
    where id = $2::uuid
    returning drain_requested_at
),
checked as materialized (
    select held.job_id, mine.cancel_requested_at is not null as cancel,
        mine.job_id is null as lost
    from unnest($4::uuid[], $5::bigint[]) as held (job_id, fence)
    left join lateral (
        select job_id, cancel_requested_at from {{schema}}.lease
        where lease.job_id = held.job_id and lease.fence = held.fence
        and lease.worker_id = $2::uuid
        limit 1
    ) as mine on true
)
select exists (select from extended) as known,
    exists (select from extended where drain_requested_at is not null) as drain,
    array(select job_id::text from checked where cancel) as cancel,
    array(select job_id::text from checked where lost) as lost
