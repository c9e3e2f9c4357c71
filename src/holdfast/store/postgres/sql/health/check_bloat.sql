-- $1 schema
select relname, n_dead_tup as dead, n_live_tup as live,
    greatest(last_vacuum, last_autovacuum) as vacuumed
from pg_catalog.pg_stat_user_tables
where schemaname = $1::text and relname in ('ready_plain', 'ready_limited', 'lease', 'scheduled', 'outcome', 'job'{{each untimed}}, '{{place}}'{{end}})
order by relname
