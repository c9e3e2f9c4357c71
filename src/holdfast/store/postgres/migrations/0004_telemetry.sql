-- The books. A statement that moves jobs adds to `move`; `fold` empties it into the other tables.
-- Readers add both, so folding changes no answer.

-- One row for each kind of move in a statement. '' as a source is a job that is new, as a target one
-- that is removed. Rows are only added and removed, never changed, so that no two transactions wait
-- for each other; and there is no key, which every statement would have to keep.
create table {{schema}}.move (
    at timestamptz not null,
    queue text collate "C" not null,
    task text collate "C" not null,
    source text collate "C" not null,
    target text collate "C" not null,
    what text collate "C" not null,
    jobs bigint not null
);

-- How many jobs are in each state. A row of none is removed.
create table {{schema}}.tally (
    queue text collate "C" not null,
    task text collate "C" not null,
    state text collate "C" not null,
    jobs bigint not null,
    primary key (queue, task, state)
);

-- How many moves there have ever been.
create table {{schema}}.total (
    queue text collate "C" not null,
    task text collate "C" not null,
    what text collate "C" not null,
    jobs bigint not null,
    primary key (queue, task, what)
);

-- How many moves there were in each minute of the last two days.
create table {{schema}}.traffic (
    minute timestamptz not null,
    queue text collate "C" not null,
    task text collate "C" not null,
    what text collate "C" not null,
    jobs bigint not null,
    primary key (minute, queue, task, what)
);

alter table {{schema}}.move set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
alter table {{schema}}.tally set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200);
alter table {{schema}}.total set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200);
alter table {{schema}}.traffic set (fillfactor = 70);
