-- Times of jobs. Workers write measures of each minute; `roll_up` adds the minutes that are sealed to
-- the points of all steps, and removes their measures. `times` are packed sketches.

create table holdfast_measure (
    minute integer not null,
    source text not null,
    queue text not null,
    task text not null,
    number integer not null,
    times blob not null,
    primary key (minute, source, queue, task)
) without rowid;

-- `at` is the minute in which a step begins. '' as a queue or a task means all of them.
create table holdfast_series (
    step integer not null,
    queue text not null,
    task text not null,
    at integer not null,
    grain text not null,
    counts text not null,
    times blob not null,
    primary key (step, queue, task, at)
) without rowid;
create index holdfast_series_at on holdfast_series (step, grain, at);

-- All times that were ever measured.
create table holdfast_ever (
    queue text not null,
    task text not null,
    times blob not null,
    primary key (queue, task)
) without rowid;

-- Every minute before `sealed` has all its measures and moves; every minute before `rolled` is added
-- to the points.
create table holdfast_rolling (
    id integer primary key check (id = 1),
    sealed integer not null,
    rolled integer not null
);
insert into holdfast_rolling values (1, 0, 0);
