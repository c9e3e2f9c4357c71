-- name: create
create table if not exists holdfast_migration (
    version integer primary key,
    name text not null,
    checksum text not null,
    applied_at integer not null
)

-- name: columns
select name from pragma_table_info('holdfast_migration') order by cid

-- name: taken names
select name from sqlite_schema
where name like 'holdfast\_%' escape '\'
order by name = 'holdfast_migration' desc, name

-- name: applied
select version, checksum from holdfast_migration

-- name: record
insert into holdfast_migration (version, name, checksum, applied_at) values (?, ?, ?, ?)

-- name: record by hand
insert into holdfast_migration (version, name, checksum, applied_at)
values ({{version}}, '{{name}}', '{{checksum}}', strftime('%s', 'now') * 1000000)
