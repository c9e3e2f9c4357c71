-- Removes everything that belongs to ended jobs. Expects `gone` (job_id, ties), the outcomes just
-- deleted.
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
steps as (
    delete from {{schema}}.step
    where job_id = any (array(select job_id from gone where ties & 32 <> 0))
),
signals as (
    delete from {{schema}}.signal
    where job_id = any (array(select job_id from gone where ties & 32 <> 0))
),
frames as (
    delete from {{schema}}.frames
    where job_id = any (array(select job_id from gone where ties & 32 <> 0))
),
live_frames as (
    delete from {{schema}}.live_frames
    where job_id = any (array(select job_id from gone where ties & 32 <> 0))
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
