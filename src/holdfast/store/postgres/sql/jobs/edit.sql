-- $1 ids   $2 channel   $3 args of each (null: as they are)   $4 tags of all (null: as they are)
-- uses: change_waiting woken
-- let ids: $1::uuid[]
-- let change: task = task
-- The narrow row is written although nothing of it changes. A claim that began before this statement
-- finds another version of the row and leaves the job to the next claim, which reads the new body.
with {{change_waiting}},
edited as (
    update {{schema}}.job
    set args = coalesce(given.args, job.args), tags = coalesce($4::text[], job.tags)
    from unnest($1::uuid[], $3::text[]) as given (id, args)
    where job.id = given.id and job.id = any (array(select job_id from changed))
),
{{woken}}
select changed.job_id::text, woken.calls from changed cross join woken
