-- $1 ids. Ended jobs with all that belongs to them.
with gone as (
    delete from {{schema}}.outcome where job_id = any ($1::uuid[]) returning job_id
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
select job_id from gone
