-- $1 ids   $2 priority
with in_ready as (
    update {{schema}}.ready set priority = $2::int
    where job_id = any ($1::uuid[]) returning job_id
),
in_scheduled as (
    update {{schema}}.scheduled set priority = $2::int
    where job_id = any ($1::uuid[]) returning job_id
),
in_suspended as (
    update {{schema}}.suspended set priority = $2::int
    where job_id = any ($1::uuid[]) returning job_id
)
select job_id from in_ready
union all select job_id from in_scheduled
union all select job_id from in_suspended
