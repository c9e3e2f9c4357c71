-- $1 now   $2 limit   $3 after
select job_id::text from (
    select job_id from {{schema}}.scheduled
    where due_at <= {{now}}
    union all
    select job_id from {{schema}}.suspended
    where wake_at <= {{now}}
) as waiting
where job_id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
order by waiting.job_id limit $2::int
