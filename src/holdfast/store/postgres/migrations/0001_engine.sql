-- A job is where its narrow row is. Bodies and outcomes are written once; narrow rows move from place
-- to place.
-- Text keys are compared bytewise (collate "C"): index descents then never call the locale library.
-- Not `if not exists`: that needs the right to create schemas even where a DBA made this one.
do $$ begin
    if to_regnamespace('{{schema}}') is null then
        create schema {{schema}};
    end if;
end $$;

create table {{schema}}.migration (
    version int primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
);

-- The body. `timeout` repeats a number of the policy, so that no claim has to read JSON.
create table {{schema}}.job (
    id uuid primary key,
    task text collate "C" not null,
    args text not null,
    policy text not null,
    tags text[] not null default '{}',
    headers text,
    timeout float8,
    unique_key text collate "C",
    unique_states text[],
    deadline_at timestamptz,
    created_at timestamptz not null default now()
);

-- `ties` on every narrow row says what a job is tied to but itself (`holdfast.job.ties`); it travels
-- with the job from place to place.

-- The arrival number: jobs of one priority are claimed in its order.
create sequence {{schema}}.ready_seq;

create table {{schema}}.ready (
    job_id uuid primary key,
    queue text collate "C" not null,
    priority int not null,
    seq bigint not null default nextval('{{schema}}.ready_seq'),
    task text collate "C" not null,
    attempts int not null default 0,
    crashes int not null default 0,
    fence bigint not null default 0,
    since timestamptz not null default now(),
    ties smallint not null default 0
);
create index ready_line on {{schema}}.ready (queue, priority, seq);

-- No column statistics here: a queue is full now and empty a minute later, and statistics of one moment
-- would make plans for another table. The claim is shaped for the planner's defaults.
alter table {{schema}}.ready
    alter column queue set statistics 0,
    alter column priority set statistics 0,
    alter column seq set statistics 0,
    alter column task set statistics 0;

-- A running job. No index but the key: claim and finish would pay for any other, and the table that
-- the reconcilers' sweeps read has no more rows than the fleet has slots. `batch` is the number of the
-- claim that took the job, so that a claim whose reply was lost can be answered again. `since` is when
-- the job took its position in the line: handed back, it has been waiting since then.
create table {{schema}}.lease (
    job_id uuid primary key,
    queue text collate "C" not null,
    priority int not null,
    seq bigint not null,
    task text collate "C" not null,
    attempts int not null,
    crashes int not null,
    fence bigint not null,
    worker_id uuid not null,
    batch bigint not null,
    since timestamptz not null,
    claimed_at timestamptz not null,
    timeout_at timestamptz,
    cancel_requested_at timestamptz,
    ahead boolean not null default false,
    ties smallint not null default 0
);

create table {{schema}}.scheduled (
    job_id uuid primary key,
    due_at timestamptz not null,
    queue text collate "C" not null,
    priority int not null,
    task text collate "C" not null,
    attempts int not null default 0,
    crashes int not null default 0,
    fence bigint not null default 0,
    ties smallint not null default 0,
    reason text
);
-- With the id, so that a sweep can go on behind any row even if thousands are due at one moment.
create index scheduled_due on {{schema}}.scheduled (due_at, job_id);

create table {{schema}}.suspended (
    job_id uuid primary key,
    wake_at timestamptz,
    queue text collate "C" not null,
    priority int not null,
    task text collate "C" not null,
    attempts int not null,
    crashes int not null,
    fence bigint not null,
    ties smallint not null default 0,
    reason text
);
create index suspended_wake on {{schema}}.suspended (wake_at, job_id) where wake_at is not null;

-- A job that waits for something else than time: no clock moves it, only a release or an end does.
create table {{schema}}.blocked (
    job_id uuid primary key,
    queue text collate "C" not null,
    priority int not null,
    task text collate "C" not null,
    attempts int not null default 0,
    crashes int not null default 0,
    fence bigint not null default 0,
    ties smallint not null default 0
);

create table {{schema}}.outcome (
    job_id uuid primary key,
    state text not null
        check (state in ('succeeded', 'failed', 'cancelled', 'expired', 'skipped')),
    queue text collate "C" not null,
    priority int not null,
    task text collate "C" not null,
    attempts int not null,
    crashes int not null,
    fence bigint not null,
    claimed_at timestamptz,
    finished_at timestamptz not null,
    expires_at timestamptz, -- null: never
    ties smallint not null default 0,
    result text,
    reason text
);
create index outcome_expiry on {{schema}}.outcome (expires_at) where expires_at is not null;
-- Most outcomes are successes, and operators mostly search for the others.
create index outcome_unhappy on {{schema}}.outcome (job_id) where state <> 'succeeded';

create table {{schema}}.error (
    job_id uuid not null,
    n bigint generated always as identity,
    at timestamptz not null,
    attempt int not null,
    kind text not null,
    message text not null,
    traceback text,
    primary key (job_id, n)
);

create table {{schema}}.progress (
    job_id uuid primary key,
    fraction float8,
    message text,
    checkpoint text,
    at timestamptz not null
);

-- A key is not released when its holder ends: an insert that meets the key checks where the holder is,
-- and whether the time for which it holds the key in any state (`until`) is over.
-- `epoch` grows whenever the key changes hands, so that such a check can be recognised as outdated.
create table {{schema}}.unique_key (
    key text collate "C" primary key,
    job_id uuid not null,
    states text[] not null,
    epoch bigint not null default 0,
    until timestamptz
);

create table {{schema}}.deadline (
    job_id uuid primary key,
    at timestamptz not null
);
create index deadline_at on {{schema}}.deadline (at);

create table {{schema}}.queue (
    name text collate "C" primary key,
    paused boolean not null default false,
    cool_until timestamptz,
    throttles int not null default 0,
    settings jsonb not null default '{}' -- what differs from the defaults
);

create table {{schema}}.worker (
    id uuid primary key,
    name text not null,
    host text not null,
    pid int not null,
    queues text not null,
    tasks text[] not null,
    version text not null,
    started_at timestamptz not null,
    heartbeat_at timestamptz not null,
    expires_at timestamptz not null,
    lease float8 not null,
    alive_since timestamptz not null,
    written_until timestamptz not null,
    stuck text not null default '{}'
);

create table {{schema}}.leader (
    role text collate "C" primary key,
    worker_id uuid not null,
    expires_at timestamptz not null
);

-- Counters that grow with each change of a kind, for workers that poll. A sequence would show a change
-- before it is committed.
create table {{schema}}.counter (
    topic text collate "C" not null,
    name text collate "C" not null,
    n bigint not null default 1,
    primary key (topic, name)
);

-- Every place where a job can be, as one relation for reads. Read by key it costs one index probe per
-- place; read in order of the key it merges the places. Because state and ended are constants in most
-- branches, a filter on them leaves whole branches out. A WHERE in a branch would keep the planner from
-- merging by the key.
create view {{schema}}.place as
    select job_id, 'ready'::text as state, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz as due_at, null::uuid as worker_id, null::timestamptz as claimed_at,
        null::timestamptz as cancel_requested_at, null::timestamptz as finished_at,
        null::timestamptz as expires_at, null::text as result, null::text as reason,
        false as ended, false as ahead, since
    from {{schema}}.ready
    union all
    select job_id, 'running'::text, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz, worker_id, claimed_at, cancel_requested_at, null::timestamptz,
        null::timestamptz, null::text, null::text, false, ahead, null::timestamptz
    from {{schema}}.lease
    union all
    select job_id, 'scheduled'::text, queue, priority, task, attempts, crashes, fence, ties,
        due_at, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz,
        null::timestamptz, null::text, reason, false, false, null::timestamptz
    from {{schema}}.scheduled
    union all
    select job_id, 'suspended'::text, queue, priority, task, attempts, crashes, fence, ties,
        wake_at, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz,
        null::timestamptz, null::text, reason, false, false, null::timestamptz
    from {{schema}}.suspended
    union all
    select job_id, 'blocked'::text, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz, null::uuid, null::timestamptz, null::timestamptz, null::timestamptz,
        null::timestamptz, null::text, null::text, false, false, null::timestamptz
    from {{schema}}.blocked
    union all
    select job_id, state, queue, priority, task, attempts, crashes, fence, ties,
        null::timestamptz, null::uuid, claimed_at, null::timestamptz, finished_at,
        expires_at, result, reason, true, false, null::timestamptz
    from {{schema}}.outcome;

-- Millions of rows pass through these tables while few are in them: vacuum early, by count.
alter table {{schema}}.ready set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
alter table {{schema}}.lease set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0, fillfactor = 85);
alter table {{schema}}.scheduled set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
alter table {{schema}}.blocked set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
alter table {{schema}}.worker set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
alter table {{schema}}.progress set (fillfactor = 70);
alter table {{schema}}.job set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
alter table {{schema}}.outcome set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

-- The three tables that the hot verbs read never shrink to nothing. If vacuum cut a drained table to
-- zero pages, a sequential scan would seem free; the workers' polls would cache that plan, and every
-- claim of the next burst would scan the whole table until statistics are renewed. With some pages
-- always there (more than the 40 that a tid scan is priced at) the index stays the cheaper guess.
alter table {{schema}}.job set (vacuum_truncate = off);
alter table {{schema}}.ready set (vacuum_truncate = off);
alter table {{schema}}.lease set (vacuum_truncate = off);

insert into {{schema}}.job (id, task, args, policy)
select gen_random_uuid(), '', repeat(' ', 200), '' from generate_series(1, 3000);
insert into {{schema}}.ready (job_id, queue, priority, seq, task)
select gen_random_uuid(), '', 0, 0, '' from generate_series(1, 8000);
insert into {{schema}}.lease
    (job_id, queue, priority, seq, task, attempts, crashes, fence, worker_id, batch, since, claimed_at)
select gen_random_uuid(), '', 0, 0, '', 0, 0, 0, gen_random_uuid(), 0, now(), now()
from generate_series(1, 8000);
delete from {{schema}}.job;
delete from {{schema}}.ready;
delete from {{schema}}.lease;
