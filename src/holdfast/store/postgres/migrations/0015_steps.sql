-- What a job has done and need not do again. A step has a result, or an error (`kind`, `message`), or
-- it waits `until` a moment. Jobs that have steps have the tie 32.
create table {{schema}}.step (
    job_id uuid not null,
    name text collate "C" not null,
    n int not null,
    fence bigint not null,
    tries int not null,
    result text,
    kind text,
    message text,
    version text,
    until timestamptz,
    at timestamptz not null,
    primary key (job_id, name)
);
