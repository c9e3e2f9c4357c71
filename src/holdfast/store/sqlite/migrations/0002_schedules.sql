-- Schedules, and the ledger in which every due plan has one row: being unique, it is the lock.

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
    -- Since when the program runs whose definition stands, and when such a program last declared it.
    code_since integer,
    code_seen_at integer,
    -- What an older program that still runs declares instead, and when it last did.
    rival text,
    rival_at integer,
    -- The oldest and the newest plan that fired and whose row was pruned since.
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

-- Lazy: the plans whose jobs may still be live. A job that ends leaves its row; whoever records
-- the next plan of the scope removes it. So what is live is found without the ledger's history.
create table holdfast_started (
    schedule text not null,
    scope text not null,
    at integer not null,
    job_id text not null,
    primary key (schedule, scope, at)
) without rowid;
