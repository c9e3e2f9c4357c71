-- $1 name   $2 settings
insert into {{schema}}.queue (name, settings) values ($1::text, $2::text::jsonb)
on conflict (name) do update set settings = excluded.settings
