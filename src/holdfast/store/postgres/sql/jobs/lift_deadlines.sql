-- $1 ids
with lifted as (
    delete from {{schema}}.deadline
    where job_id = any ($1::uuid[])
    and not exists (select from {{schema}}.outcome where outcome.job_id = deadline.job_id)
    returning job_id
),
undated as (
    update {{schema}}.job set deadline_at = null
    where id = any (array(select job_id from lifted))
)
select job_id::text from lifted
