-- $1 names   $2 settings
-- Answers with the limits that it changed.
insert into {{schema}}.limit_rule as known (name, settings)
select name, settings::jsonb from unnest($1::text[], $2::text[]) as given (name, settings) order by name
on conflict (name) do update set
    settings = case when known.edited then known.settings else excluded.settings end,
    retired = false, revision = known.revision + 1
where known.retired or (not known.edited and known.settings <> excluded.settings)
returning name
