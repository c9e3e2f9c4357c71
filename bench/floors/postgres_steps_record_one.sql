with mine as materialized (
    select job_id, fence from lease where job_id = $1::uuid and fence = $2::bigint for share
),
written as (
    insert into step (job_id, name, fence, result, at)
    select job_id, $3::text, fence, $4::text, statement_timestamp() from mine
    on conflict do nothing
)
select count(*) from mine
