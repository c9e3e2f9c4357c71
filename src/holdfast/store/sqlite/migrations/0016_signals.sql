-- What was sent to jobs. A signal that was taken has the name of the step that has its value. Jobs that
-- were sent signals have the tie 32.
create table holdfast_signal (
    job_id text not null,
    n integer not null,
    name text not null,
    value text,
    key text not null,
    taken_by text,
    at integer not null,
    primary key (job_id, n)
) without rowid;

create unique index holdfast_signal_key on holdfast_signal (job_id, key);

-- The signal that a step waits for. It is the wait of the job only if the step has the job's fence.
alter table holdfast_step add column awaits text;

create index holdfast_step_awaits on holdfast_step (job_id, awaits) where awaits is not null;
