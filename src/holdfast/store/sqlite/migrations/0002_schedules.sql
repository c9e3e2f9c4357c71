-- Schedules, and the ledger. Every due plan has one row in the ledger, whose key is the lock: two
-- processes cannot both record one plan.

create table holdfast_schedule (
    name text primary key,
    definition text not null,
    rule text not null,
    keep real not null,
    edited integer not null,
    revision integer not null,
    created_at integer not null,
    changed_at integer,
    declared_at integer,
    paused integer not null default 0,
    paused_at integer,
    resumed_at integer,
    error text,
    error_at integer,
    -- When the program started whose definition this is, and when it was last declared so.
    code_since integer,
    code_seen_at integer,
    -- The definition that an older running program declares instead, and when it last did.
    rival text,
    rival_at integer,
    -- The oldest and the newest of the fired plans whose rows were pruned.
    pruned_from integer,
    pruned_until integer
) without rowid;

-- The newest recorded plan of each scope. It outlives the ledger's rows.
create table holdfast_schedule_cursor (
    schedule text not null,
    scope text not null,
    at integer not null,
    primary key (schedule, scope)
) without rowid;

create table holdfast_ledger (
    schedule text not null,
    scope text not null,
    at integer not null,
    decision text not null,
    reason text not null,
    recorded_at integer not null,
    keep_until integer not null,
    job_id text,
    primary key (schedule, scope, at)
) without rowid;
create index holdfast_ledger_newest on holdfast_ledger (schedule, at desc, scope);
create index holdfast_ledger_expiry on holdfast_ledger (keep_until) where decision not in ('failed', 'waiting');
create index holdfast_ledger_job on holdfast_ledger (job_id) where job_id is not null;
create index holdfast_ledger_open on holdfast_ledger (schedule, at, scope) where decision in ('failed', 'waiting');

-- The plans whose jobs may still be live, so that live jobs are found without reading the ledger.
-- Rows are removed late: not when the job ends, but when the next plan of the scope is recorded.
create table holdfast_started (
    schedule text not null,
    scope text not null,
    at integer not null,
    job_id text not null,
    primary key (schedule, scope, at)
) without rowid;
