
-- The names in braces are filled in from this program's own files when the script is printed.
insert into {{schema}}.migration (version, name, checksum) values ({version}, '{name}', '{checksum}');
