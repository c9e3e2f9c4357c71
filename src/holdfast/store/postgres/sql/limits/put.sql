-- $1 name   $2 settings
insert into {{schema}}.limit_rule as known (name, settings, edited)
values ($1::text, $2::jsonb, true)
on conflict (name) do update set
    settings = excluded.settings, edited = true, retired = false, revision = known.revision + 1
returning name
