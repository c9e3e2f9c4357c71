create table resource_fence (
    resource text primary key,
    job_id text not null,
    fence bigint not null,
    claimed_at bigint not null
)
