-- $1 now   $2 channel   $3 id   $4 task   $5 queue   $6 priority   $7 timeout
-- and the columns of the body
-- One plain job: insert.sql without the steps that a plain job does not need, and without arrays.
with body as (
    insert into {{schema}}.job (id, task, {{body}}, timeout, created_at)
    values ($3::uuid, $4::text, {{body_values}}, $7::float8, {{now}})
    on conflict (id) do nothing
    returning id
),
to_ready as (
    insert into {{schema}}.ready_plain (job_id, queue, priority, task, since)
    select id, $5::text, $6::int, $4::text, {{now}} from body
),
counted as (
    insert into {{schema}}.move (at, queue, task, source, target, what, jobs)
    select {{now}}, $5::text, $4::text, '', 'ready', 'enqueued', 1 from body
)
select pg_notify($2::text || '_few', 'ready:' || $5::text || '=1') from body
