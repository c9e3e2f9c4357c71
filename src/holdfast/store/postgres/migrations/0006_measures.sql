-- Times of jobs. Workers write measures of each minute; `roll_up` adds the minutes that are sealed to
-- the points of all steps, and removes their measures. `times` are packed sketches.

create table {{schema}}.measure (
    minute timestamptz not null,
    source text collate "C" not null,
    queue text collate "C" not null,
    task text collate "C" not null,
    number bigint not null,
    times bytea not null,
    primary key (minute, source, queue, task)
);

-- `at` is when a step begins. '' as a queue or a task means all of them.
create table {{schema}}.series (
    step int not null,
    queue text collate "C" not null,
    task text collate "C" not null,
    at timestamptz not null,
    grain text collate "C" not null,
    counts text not null,
    times bytea not null,
    primary key (step, queue, task, at)
);
create index series_at on {{schema}}.series (step, grain, at);

-- All times that were ever measured.
create table {{schema}}.ever (
    queue text collate "C" not null,
    task text collate "C" not null,
    times bytea not null,
    primary key (queue, task)
);

-- One row. Every minute before `sealed` has all its measures and moves; every minute before `rolled` is
-- added to the points.
create table {{schema}}.rolling (
    id int primary key check (id = 1),
    sealed timestamptz not null,
    rolled timestamptz not null
);
insert into {{schema}}.rolling values (1, 'epoch', 'epoch');

alter table {{schema}}.measure set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
alter table {{schema}}.series set (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 500);
alter table {{schema}}.ever set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 200);
alter table {{schema}}.rolling set (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100);
