-- $1 names   $2 settings
-- An operator's tuning is never overwritten.
insert into {{schema}}.queue (name, settings)
select name, settings::jsonb from unnest($1::text[], $2::text[]) as given (name, settings)
order by name
on conflict (name) do nothing
returning name
