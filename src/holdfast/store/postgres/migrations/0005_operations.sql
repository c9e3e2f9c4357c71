-- Acts on many jobs that outlive whoever began them, and what an undo needs to know of each page.

create table {{schema}}.operation (
    id uuid primary key,
    request text not null,
    state text not null,
    revision int not null,
    progress text not null,
    hand text,
    begun_at timestamptz not null,
    advanced_at timestamptz not null
);
create index operation_newest on {{schema}}.operation (begun_at, id);
create index operation_running on {{schema}}.operation (id) where state = 'running';

create table {{schema}}.operation_kept (
    operation uuid not null,
    number int not null,
    jobs text not null,
    primary key (operation, number)
);
