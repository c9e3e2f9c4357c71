-- Small documents that programs keep in the store, such as the catalogue of tasks.

create table {{schema}}.shelf (
    kind text not null,
    key text collate "C" not null,
    value text not null,
    revision bigint not null,
    expires_at timestamptz,
    primary key (kind, key)
);
create index shelf_expiry on {{schema}}.shelf (expires_at) where expires_at is not null;
