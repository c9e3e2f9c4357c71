-- What was sent to jobs. A signal that was taken has the name of the step that has its value. Jobs that
-- were sent signals have the tie 32.
create table {{schema}}.signal (
    job_id uuid not null,
    n int not null,
    name text collate "C" not null,
    value text,
    key text collate "C" not null,
    taken_by text,
    at timestamptz not null,
    primary key (job_id, n)
);
create unique index signal_key on {{schema}}.signal (job_id, key);

-- The signal that a step waits for. It is the wait of the job only if the step has the job's fence.
alter table {{schema}}.step add column awaits text collate "C";
create index step_awaits on {{schema}}.step (job_id, awaits) where awaits is not null;
