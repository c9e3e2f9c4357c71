-- $1 now   $2 ids   $3 fences   $4 fractions   $5 messages   $6 checkpoints
-- One report for each attempt; of the attempts of a job only the current one has a lease. A field that
-- is null leaves the former value. The lease is locked, so that no report is written after the end of
-- its attempt.
with mine as materialized (
    select job_id, fence from {{schema}}.lease
    where job_id = any ($2::uuid[]) order by job_id for share
),
kept as materialized (
    select given.* from unnest($2::uuid[], $3::bigint[], $4::float8[], $5::text[], $6::text[])
        as given (job_id, fence, fraction, message, checkpoint)
    join mine on mine.job_id = given.job_id and mine.fence = given.fence
),
written as (
    insert into {{schema}}.progress as old (job_id, fraction, message, checkpoint, at)
    select job_id, fraction, message, checkpoint, {{now}}
    from kept order by job_id
    on conflict (job_id) do update
    set fraction = coalesce(excluded.fraction, old.fraction),
        message = coalesce(excluded.message, old.message),
        checkpoint = coalesce(excluded.checkpoint, old.checkpoint),
        at = excluded.at
)
select job_id, fence from kept
