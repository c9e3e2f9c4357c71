create table lease (job_id uuid primary key, fence bigint not null);
create table step (
    job_id uuid,
    name text collate "C",
    fence bigint not null,
    result text,
    at timestamptz not null,
    primary key (job_id, name)
);
