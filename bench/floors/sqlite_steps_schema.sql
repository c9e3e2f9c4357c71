create table lease (job_id text primary key, fence integer not null) without rowid;
create table step (
    job_id text not null,
    name text not null,
    fence integer not null,
    result text,
    at integer not null,
    primary key (job_id, name)
) without rowid;
