select current_setting('server_version_num')::int as number,
    current_setting('server_version') as version, current_setting('fsync') as fsync,
    current_setting('synchronous_commit') as synchronous_commit,
    current_setting('max_connections')::int as allowed,
    (select count(*)::int from pg_catalog.pg_stat_activity where backend_type = 'client backend')
        as used
