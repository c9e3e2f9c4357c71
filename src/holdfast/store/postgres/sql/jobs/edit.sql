-- $1 ids   $2 args (null: as they are)   $3 tags (null: as they are)
-- uses: change_waiting
-- let ids: $1::uuid[]
-- let change: task = task
-- The narrow row is written although nothing of it changes. A claim that began before this statement
-- finds another version of the row and leaves the job to the next claim, which reads the new body.
with {{change_waiting}},
edited as (
    update {{schema}}.job
    set args = coalesce($2::text, args), tags = coalesce($3::text[], tags)
    where id = any (array(select job_id from changed))
)
select job_id from changed
