-- What a job has done and need not do again. A step has a result, or an error (`kind`, `message`), or
-- it waits `until` a moment. Jobs that have steps have the tie 32.
create table holdfast_step (
    job_id text not null,
    name text not null,
    n integer not null,
    fence integer not null,
    tries integer not null,
    result text,
    kind text,
    message text,
    version text,
    until integer,
    at integer not null,
    primary key (job_id, name)
) without rowid;
