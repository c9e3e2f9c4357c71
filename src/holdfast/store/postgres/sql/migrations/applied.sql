select version, checksum from {{schema}}.migration order by version
