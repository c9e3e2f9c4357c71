-- $1 now   $2 channel   $3 ids   $4 args of each (null: as they are)   $5 tags of all (null: as they are)
-- $6 who edits   $7 what its happening says
-- uses: change_waiting happened_waiting told woken
-- let ids: $3::uuid[]
-- let may: (($4::text[])[1] is null or ties & 128 = 0)
-- let change: task = task
-- let what: 'edited'
-- let by: $6::text
-- let due: null::timestamptz
-- let message: $7::text
-- All of the jobs get arguments, or none: jobs that have begun (128) get none.
-- The narrow row is written although nothing of it changes. A claim that began before this statement
-- finds another version of the row and leaves the job to the next claim, which reads the new body.
with {{change_waiting}},
given as materialized (
    select id, args from unnest($3::uuid[], $4::text[]) as given (id, args)
),
edited as (
    update {{schema}}.job
    set args = coalesce(given.args, job.args), tags = coalesce($5::text[], job.tags)
    from given
    where job.id = given.id and job.id = any (array(select job_id from changed))
),
told_of as (
    -- those that the edit makes different: this reads the bodies as they were
    select changed.job_id, changed.attempts, changed.fence
    from changed
    join given on given.id = changed.job_id
    join {{schema}}.job on job.id = changed.job_id
    where given.args <> job.args or $5::text[] <> job.tags
),
{{happened_waiting}},
{{told}},
{{woken}}
select changed.job_id::text, woken.calls from changed cross join woken
