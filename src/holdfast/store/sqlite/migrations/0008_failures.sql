-- Errors of one cause, counted together. Samples lie apart: they are long, and change once a minute,
-- while a count changes with every error.

create table holdfast_failure (
    fingerprint text primary key,
    task text not null,
    kind text not null,
    times integer not null,
    first_at integer not null,
    last_at integer not null,
    muted_until integer,
    note text
) without rowid;

create table holdfast_failure_sample (
    fingerprint text primary key,
    at integer not null,
    job_id text not null,
    attempt integer not null,
    message text not null,
    traceback text
) without rowid;

create index holdfast_outcome_fingerprint on holdfast_outcome (fingerprint, job_id)
where fingerprint is not null;
