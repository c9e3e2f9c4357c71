-- Schedules, and the ledger in which every due plan has one row. The row is unique, so it is the lock:
-- of several replicas only the one that wrote it starts the plan's job.

create table {{schema}}.schedule (
    name text collate "C" primary key,
    definition text not null,
    rule text not null,
    keep float8 not null,
    edited boolean not null,
    revision int not null default 1,
    created_at timestamptz not null,
    changed_at timestamptz,
    declared_at timestamptz,
    paused boolean not null default false,
    paused_at timestamptz,
    resumed_at timestamptz,
    error text,
    error_at timestamptz,
    -- Since when the program runs whose definition counts, and when a program last declared the same.
    code_since timestamptz,
    code_seen_at timestamptz,
    -- The definition that an older program still declares instead, and when it last did.
    rival text,
    rival_at timestamptz,
    -- The oldest and the newest fired plan whose ledger row was pruned.
    pruned_from timestamptz,
    pruned_until timestamptz
);

-- The newest recorded plan of each scope. It outlives the ledger's rows.
create table {{schema}}.schedule_cursor (
    schedule text collate "C" not null,
    scope text collate "C" not null,
    at timestamptz not null,
    primary key (schedule, scope)
);

create table {{schema}}.ledger (
    schedule text collate "C" not null,
    scope text collate "C" not null,
    at timestamptz not null,
    decision text not null,
    reason text not null,
    recorded_at timestamptz not null,
    keep_until timestamptz not null,
    job_id uuid,
    primary key (schedule, scope, at)
);
create index ledger_newest on {{schema}}.ledger (schedule, at desc, scope);
create index ledger_expiry on {{schema}}.ledger (keep_until) where decision not in ('failed', 'waiting');
create index ledger_job on {{schema}}.ledger (job_id) where job_id is not null;
create index ledger_open on {{schema}}.ledger (schedule, at, scope) where decision in ('failed', 'waiting');

-- The plans whose jobs may still be live, so that live jobs are found without the ledger's history.
-- A job that ends does not touch its row here; the next recorded plan of the scope removes it. `epoch`
-- grows when the job is requeued, so that a removal that saw it ended leaves the row.
create table {{schema}}.started (
    schedule text collate "C" not null,
    scope text collate "C" not null,
    at timestamptz not null,
    job_id uuid not null,
    epoch bigint not null default 0,
    primary key (schedule, scope, at)
);

-- A cursor moves with every plan: with room on its page no index entry has to be written.
alter table {{schema}}.schedule_cursor set (fillfactor = 70);
alter table {{schema}}.started set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
alter table {{schema}}.ledger set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
