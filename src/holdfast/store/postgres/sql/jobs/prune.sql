-- $1 now   $2 ids, as expired.sql found them
-- The same removal as delete.sql, for those whose time to be kept is over still. Several may prune
-- at once: each takes rows that no other has.
with over as materialized (
    select ctid from {{schema}}.outcome
    where job_id = any ($2::uuid[])
    and expires_at <= coalesce($1::timestamptz, statement_timestamp())
    for update skip locked
),
gone as (
    delete from {{schema}}.outcome where ctid = any (array(select ctid from over))
    returning job_id
),
ids as materialized (
    select array_agg(job_id) as list from gone
),
bodies as (
    delete from {{schema}}.job where id = any ((select list from ids)::uuid[])
    returning id, unique_key
),
errors as (
    delete from {{schema}}.error where job_id = any ((select list from ids)::uuid[])
),
reports as (
    delete from {{schema}}.progress where job_id = any ((select list from ids)::uuid[])
),
deadlines as (
    delete from {{schema}}.deadline where job_id = any ((select list from ids)::uuid[])
),
keys as (
    delete from {{schema}}.unique_key
    using bodies
    where unique_key.key = bodies.unique_key and unique_key.job_id = bodies.id
)
select count(*)::int from gone
