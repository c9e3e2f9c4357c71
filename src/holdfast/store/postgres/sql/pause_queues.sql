-- $1 names
insert into {{schema}}.queue (name, paused)
select name, true from unnest($1::text[]) as given (name) order by name
on conflict (name) do update set paused = true
