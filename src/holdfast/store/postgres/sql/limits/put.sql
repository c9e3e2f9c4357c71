-- $1 name   $2 settings
-- As in declare.sql, the server has to know the time zone.
insert into {{schema}}.limit_rule as known (name, settings, edited)
select $1::text, $2::jsonb, true from {{schema}}.period_of($2::jsonb, now())
on conflict (name) do update set
    settings = excluded.settings, edited = true, retired = false, revision = known.revision + 1
returning name
