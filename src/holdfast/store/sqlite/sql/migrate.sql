-- name: create
create table if not exists holdfast_migration (
    version integer primary key,
    name text not null,
    checksum text not null,
    applied_at integer not null
)

-- name: applied
select version, checksum from holdfast_migration

-- name: record
insert into holdfast_migration (version, name, checksum, applied_at) values (?, ?, ?, ?)

-- name: record by hand
insert into holdfast_migration (version, name, checksum, applied_at)
values ({{version}}, '{{name}}', '{{checksum}}', strftime('%s', 'now') * 1000000)
