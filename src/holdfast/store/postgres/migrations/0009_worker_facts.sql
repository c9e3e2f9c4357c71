-- What workers say of themselves, who is to leave, and what those have counted that left.

alter table {{schema}}.worker rename column stuck to facts;
alter table {{schema}}.worker add column drain_requested_at timestamptz;

create table {{schema}}.worker_count (
    name text collate "C" primary key,
    n bigint not null
);
