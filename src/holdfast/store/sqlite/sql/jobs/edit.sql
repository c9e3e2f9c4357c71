update holdfast_job
set args = coalesce(:args, args), tags = coalesce(:tags, tags)
where id in (
    select job_id
    from holdfast_place
    where not ended and state <> 'running' and job_id in (select value from json_each(:ids))
)
returning id
