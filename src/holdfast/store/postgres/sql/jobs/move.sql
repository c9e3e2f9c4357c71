-- $1 channel   $2 ids   $3 queue
with in_ready as (
    update {{schema}}.ready set queue = $3::text
    where job_id = any ($2::uuid[]) returning job_id
),
in_scheduled as (
    update {{schema}}.scheduled set queue = $3::text
    where job_id = any ($2::uuid[]) returning job_id
),
in_suspended as (
    update {{schema}}.suspended set queue = $3::text
    where job_id = any ($2::uuid[]) returning job_id
),
moved as materialized (
    select job_id from in_ready
    union all select job_id from in_scheduled
    union all select job_id from in_suspended
),
woken as (
    select count(pg_notify($1::text, 'ready:' || $3::text)) as calls
    from (select from in_ready limit 1) as any_ready
)
select moved.job_id, woken.calls from moved cross join woken
