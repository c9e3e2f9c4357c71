-- The books. A transaction that moves jobs adds to `move`; `fold` empties the minutes that are over
-- into the other tables. Readers add both, so folding changes no answer.

-- '' as a source is a job that is new, as a target one that is removed.
create table holdfast_move (
    minute integer not null,
    queue text not null,
    task text not null,
    source text not null,
    target text not null,
    what text not null,
    jobs integer not null,
    primary key (minute, queue, task, source, target, what)
) without rowid;

-- How many jobs are in each state. A row of none is removed.
create table holdfast_tally (
    queue text not null,
    task text not null,
    state text not null,
    jobs integer not null,
    primary key (queue, task, state)
) without rowid;

-- How many moves there have ever been.
create table holdfast_total (
    queue text not null,
    task text not null,
    what text not null,
    jobs integer not null,
    primary key (queue, task, what)
) without rowid;

-- How many moves there were in each minute of the last two days.
create table holdfast_traffic (
    minute integer not null,
    queue text not null,
    task text not null,
    what text not null,
    jobs integer not null,
    primary key (minute, queue, task, what)
) without rowid;
