-- $1 schema
select exists (
    select from pg_catalog.pg_tables where schemaname = $1::text and tablename = 'migration'
)
