-- Acts on many jobs that outlive whoever began them, and what an undo needs to know of each page.

create table holdfast_operation (
    id text primary key,
    request text not null,
    state text not null,
    revision integer not null,
    progress text not null,
    hand text,
    begun_at integer not null,
    advanced_at integer not null
) without rowid;
create index holdfast_operation_newest on holdfast_operation (begun_at, id);
create index holdfast_operation_running on holdfast_operation (id) where state = 'running';

create table holdfast_operation_kept (
    operation text not null,
    number integer not null,
    jobs text not null,
    primary key (operation, number)
) without rowid;
