-- Small documents that programs keep in the store, such as the catalogue of tasks.

create table holdfast_shelf (
    kind text not null,
    key text not null,
    value text not null,
    revision integer not null,
    expires_at integer,
    primary key (kind, key)
) without rowid;
create index holdfast_shelf_expiry on holdfast_shelf (expires_at) where expires_at is not null;
