update holdfast_job
set args = coalesce(?2, args), tags = coalesce(?3, tags)
where id in (
    select job_id
    from holdfast_place
    where not ended and state <> 'running' and job_id in (select value from json_each(?1))
)
returning id
