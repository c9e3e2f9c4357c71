-- $1 now   $2 bucket, which is locked   $3 jobs whose new leases count in it
with counted as (
    update {{schema}}.lease set buckets = $2::text where job_id = any ($3::uuid[]) returning job_id
)
update {{schema}}.bucket set in_use = in_use + (select count(*) from counted), touched_at = {{now}}
where name = $2::text
