-- The transaction that holds back vacuum the longest in this database.
select pid, application_name, extract(epoch from now() - xact_start)::float8 as seconds
from pg_catalog.pg_stat_activity
where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
and backend_type = 'client backend'
order by xact_start limit 1
