-- Removes what belongs to ended jobs, but for what their attempts recorded (`unrecorded`). Expects `gone`
-- (job_id, ties), the outcomes just deleted.
ids as materialized (
    select array_agg(job_id) as list from gone
),
bodies as (
    delete from {{schema}}.job where id = any ((select list from ids)::uuid[])
    returning id, unique_key
),
happenings as (
    delete from {{schema}}.happening where job_id = any ((select list from ids)::uuid[])
),
reports as (
    delete from {{schema}}.progress where job_id = any ((select list from ids)::uuid[])
),
limits as (
    delete from {{schema}}.limited
    where job_id = any (array(select job_id from gone where ties & 2 <> 0))
),
deadlines as (
    delete from {{schema}}.deadline where job_id = any ((select list from ids)::uuid[])
),
keys as (
    delete from {{schema}}.unique_key
    using bodies
    where unique_key.key = bodies.unique_key and unique_key.job_id = bodies.id
)
