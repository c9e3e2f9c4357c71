with mine as materialized (
    select job_id, fence from lease where job_id = any ($1::uuid[]) order by job_id for share
),
kept as materialized (
    select given.* from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[])
        as given (job_id, fence, name, result)
    join mine on mine.job_id = given.job_id and mine.fence = given.fence
),
written as (
    insert into step (job_id, name, fence, result, at)
    select job_id, name, fence, result, statement_timestamp() from kept order by job_id, name
    on conflict do nothing
)
select count(*) from kept
