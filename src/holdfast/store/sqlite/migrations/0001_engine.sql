-- The engine: a job is where its row is.
--
-- `job` and `outcome` are written once. Only the narrow rows of `ready`, `lease`, `scheduled`,
-- `suspended` and `blocked` move. All times are microseconds since 1970 UTC.

-- A rowid table with an index on `id`. WITHOUT ROWID would store rows of several kilobytes in
-- interior pages too, about four on each, and make the tree very deep.
create table holdfast_job (
    id text primary key not null,
    task text not null,
    created_at integer not null,
    policy text not null,
    tags text,
    headers text,
    unique_key text,
    unique_states text,
    args text not null
);

-- The line itself is the primary key, so a claim reads it in order and touches one tree.
create table holdfast_ready (
    queue text not null,
    priority integer not null,
    seq integer not null,
    job_id text not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null,
    ready_at integer not null,
    primary key (queue, priority, seq)
) without rowid;
create unique index holdfast_ready_job on holdfast_ready (job_id);

-- Running attempts. There are few at any moment, hence no index but the key.
create table holdfast_lease (
    job_id text primary key,
    queue text not null,
    priority integer not null,
    seq integer not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null,
    cancel_requested_at integer,
    ready_at integer not null,
    worker_id text not null,
    claimed_at integer not null,
    timeout_at integer,
    ahead integer not null default 0
) without rowid;

create table holdfast_scheduled (
    job_id text primary key,
    queue text not null,
    priority integer not null,
    seq integer not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null,
    reason text,
    due_at integer not null
) without rowid;
create index holdfast_scheduled_due on holdfast_scheduled (due_at);

create table holdfast_suspended (
    job_id text primary key,
    queue text not null,
    priority integer not null,
    seq integer not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null,
    reason text,
    wake_at integer
) without rowid;
create index holdfast_suspended_wake on holdfast_suspended (wake_at) where wake_at is not null;

-- Jobs that wait for something else than time.
create table holdfast_blocked (
    job_id text primary key,
    queue text not null,
    priority integer not null,
    seq integer not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null
) without rowid;

create table holdfast_outcome (
    job_id text primary key,
    state text not null,
    queue text not null,
    priority integer not null,
    seq integer not null,
    task text not null,
    attempts integer not null,
    crashes integer not null,
    fence integer not null,
    ties integer not null,
    cancel_requested_at integer,
    worker_id text,
    claimed_at integer,
    deadline_at integer,
    finished_at integer not null,
    expires_at integer, -- null: never
    reason text,
    result text
) without rowid;
create index holdfast_outcome_expires on holdfast_outcome (expires_at);
-- Most outcomes are successes, and operators mostly search for the others.
create index holdfast_outcome_unhappy on holdfast_outcome (job_id) where state <> 'succeeded';

create table holdfast_error (
    job_id text not null,
    n integer not null,
    attempt integer not null,
    at integer not null,
    kind text not null,
    message text not null,
    traceback text,
    primary key (job_id, n)
) without rowid;

create table holdfast_progress (
    job_id text primary key,
    fraction real,
    message text,
    checkpoint text,
    at integer not null
) without rowid;

-- A job holds its key while it is in one of `states`, and in any state until `until`. Rows are not
-- removed when it lets go of them: whoever meets a row looks where its job is.
create table holdfast_unique_key (
    key text primary key,
    job_id text not null,
    states text not null,
    until integer
) without rowid;

-- The deadlines of live jobs; few jobs have one.
create table holdfast_deadline (
    job_id text primary key,
    at integer not null
) without rowid;
create index holdfast_deadline_at on holdfast_deadline (at);

create table holdfast_queue (
    name text primary key,
    paused integer not null default 0,
    cool_until integer,
    throttles integer not null default 0,
    settings text not null default '{}' -- what differs from the defaults
) without rowid;

create table holdfast_worker (
    id text primary key,
    name text not null,
    host text not null,
    pid integer not null,
    queues text not null,
    tasks text not null,
    version text not null,
    started_at integer not null,
    heartbeat_at integer not null,
    expires_at integer not null,
    lease integer not null,
    alive_since integer not null,
    written_until integer not null,
    stuck text not null default '{}'
) without rowid;

create table holdfast_leader (
    role text primary key,
    worker_id text not null,
    expires_at integer not null
) without rowid;

-- Counters, on one page because every insert writes two of them. `arrival` gives jobs their numbers
-- in line; a job that is handed back keeps its number, which may be higher than any in the line.
-- `return` grows when jobs go back to their old positions. The other topics are wakeups: a
-- transaction increments the counter of what other processes should look at.
create table holdfast_counter (
    topic text not null,
    name text not null,
    n integer not null,
    primary key (topic, name)
) without rowid;
insert into holdfast_counter (topic, name, n) values ('arrival', '', 0), ('return', '', 0);

-- Every job with the place it is in: the one list of places. SQLite applies the conditions of a
-- statement to each table of the view, and uses its indexes, only if a column has the same affinity
-- in every arm: hence the casts. The states of live places and `ended` are constants, so a
-- statement that asks for `not ended` or for a state skips the other tables without reading them.
create view holdfast_place (
    job_id, state, ended, queue, priority, seq, task, attempts, crashes, fence, ties,
    cancel_requested_at, worker_id, claimed_at, ahead, due_at,
    deadline_at, finished_at, expires_at, reason, result
) as
select
    job_id, cast('ready' as text), 0, queue, priority, seq, task, attempts, crashes, fence, ties,
    cast(null as integer), cast(null as text), cast(null as integer), cast(0 as integer),
    cast(null as integer), cast(null as integer), cast(null as integer), cast(null as integer),
    cast(null as text), cast(null as text)
from holdfast_ready
union all
select
    job_id, cast('running' as text), 0, queue, priority, seq, task, attempts, crashes, fence, ties,
    cancel_requested_at, worker_id, claimed_at, ahead, cast(null as integer), cast(null as integer),
    cast(null as integer), cast(null as integer), cast(null as text), cast(null as text)
from holdfast_lease
union all
select
    job_id, cast('scheduled' as text), 0, queue, priority, seq, task, attempts, crashes, fence, ties,
    cast(null as integer), cast(null as text), cast(null as integer), cast(0 as integer), due_at,
    cast(null as integer), cast(null as integer), cast(null as integer), reason, cast(null as text)
from holdfast_scheduled
union all
select
    job_id, cast('suspended' as text), 0, queue, priority, seq, task, attempts, crashes, fence, ties,
    cast(null as integer), cast(null as text), cast(null as integer), cast(0 as integer), wake_at,
    cast(null as integer), cast(null as integer), cast(null as integer), reason, cast(null as text)
from holdfast_suspended
union all
select
    job_id, cast('blocked' as text), 0, queue, priority, seq, task, attempts, crashes, fence, ties,
    cast(null as integer), cast(null as text), cast(null as integer), cast(0 as integer),
    cast(null as integer), cast(null as integer), cast(null as integer), cast(null as integer),
    cast(null as text), cast(null as text)
from holdfast_blocked
union all
select
    job_id, state, 1, queue, priority, seq, task, attempts, crashes, fence, ties,
    cancel_requested_at, worker_id, claimed_at, cast(0 as integer), cast(null as integer),
    deadline_at, finished_at, expires_at, reason, result
from holdfast_outcome;
