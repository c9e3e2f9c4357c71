-- Errors of one cause, counted together. A statement that ends attempts with errors adds to `failing`;
-- `fold` empties it into the other tables. Readers add both, so folding changes no answer.

-- One row for each fingerprint in a statement. Rows are only added and removed, never changed, so that
-- no two transactions wait for each other. The texts are null where a recent sample is kept already.
create table {{schema}}.failing (
    at timestamptz not null,
    fingerprint text collate "C" not null,
    task text collate "C" not null,
    kind text not null,
    times bigint not null,
    job_id uuid not null,
    attempt int not null,
    message text,
    traceback text
);

create table {{schema}}.failure (
    fingerprint text collate "C" primary key,
    task text collate "C" not null,
    kind text not null,
    times bigint not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    muted_until timestamptz,
    note text
);

-- Apart from `failure`, whose rows change with every fold: these are long, and change once a minute.
create table {{schema}}.failure_sample (
    fingerprint text collate "C" primary key,
    at timestamptz not null,
    job_id uuid not null,
    attempt int not null,
    message text not null,
    traceback text
);

create index outcome_fingerprint on {{schema}}.outcome (fingerprint, job_id) where fingerprint is not null;

alter table {{schema}}.failing set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
alter table {{schema}}.failure set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200);
