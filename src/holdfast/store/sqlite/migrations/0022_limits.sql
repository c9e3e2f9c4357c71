-- Limits, their buckets, and the lines of jobs that pass the same buckets.

create table holdfast_limit_rule (
    name text primary key,
    settings text not null,
    edited integer not null default 0,
    retired integer not null default 0,
    revision integer not null default 1
) without rowid;

-- `has_waiting`: lines are parked at it; `opens_at` is then when to look at it again (null: when a job
-- ends or an operator changes it).
create table holdfast_bucket (
    name text primary key,
    in_use integer not null default 0,
    override text,
    shut_until integer,
    throttles integer not null default 0,
    has_waiting integer not null default 0,
    opens_at integer,
    touched_at integer not null
) without rowid;
create index holdfast_bucket_opens on holdfast_bucket (opens_at) where has_waiting and opens_at is not null;

-- The jobs of one queue, priority and task that pass the same buckets. A line that meets a full bucket is
-- parked there, out of the index that claims read.
create table holdfast_line (
    id integer primary key,
    queue text not null,
    priority integer not null,
    task text not null,
    buckets text not null,
    turn integer not null,
    parked_at text
);
create unique index holdfast_line_of on holdfast_line (queue, priority, task, buckets);
create index holdfast_line_open on holdfast_line (queue, priority, turn) where parked_at is null;
create index holdfast_line_parked on holdfast_line (parked_at, priority, turn) where parked_at is not null;

-- The buckets that a job with limits passes.
create table holdfast_limited (
    job_id text primary key,
    buckets text not null
) without rowid;

-- What a running job counts in; null for a job without limits.
alter table holdfast_lease add column buckets text;

-- The line is the first column of the key, 0 for jobs without limits: their claims read a range of their
-- own, however many jobs wait in other lines.
drop view holdfast_place;
create table holdfast_ready_in_lines (
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
    line integer not null default 0,
    primary key (line, queue, priority, seq)
) without rowid;
insert into holdfast_ready_in_lines
    (queue, priority, seq, job_id, task, attempts, crashes, fence, ties, ready_at)
select queue, priority, seq, job_id, task, attempts, crashes, fence, ties, ready_at from holdfast_ready;
drop table holdfast_ready;
alter table holdfast_ready_in_lines rename to holdfast_ready;
create unique index holdfast_ready_job on holdfast_ready (job_id);

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
