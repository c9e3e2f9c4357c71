-- What workers say of themselves, who is to leave, and what those have counted that left.

alter table holdfast_worker rename column stuck to facts;
alter table holdfast_worker add column drain_requested_at integer;

create table holdfast_worker_count (
    name text primary key,
    n integer not null
) without rowid;
