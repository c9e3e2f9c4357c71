-- $1 version   $2 name   $3 checksum
insert into {{schema}}.migration (version, name, checksum) values ($1::int, $2::text, $3::text)
