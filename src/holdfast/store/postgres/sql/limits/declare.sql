-- $1 names   $2 settings
-- Answers with the limits that it changed. A limit of another kind is changed only if it is retired; an edit of that
-- other kind is forgotten. A period is asked for, so that a time zone which the server does not know is refused here, and
-- not by each claim.
insert into {{schema}}.limit_rule as known (name, settings)
select name, settings::jsonb from unnest($1::text[], $2::text[]) as given (name, settings)
cross join lateral {{schema}}.period_of(given.settings::jsonb, now()) as known_to_the_server
order by name
on conflict (name) do update set
    settings = case
        when known.edited and known.settings -> 'kind' = excluded.settings -> 'kind' then known.settings
        else excluded.settings
    end,
    edited = known.edited and known.settings -> 'kind' = excluded.settings -> 'kind',
    retired = false, revision = known.revision + 1
where
    known.retired
    or (
        not known.edited and known.settings <> excluded.settings
        and known.settings -> 'kind' = excluded.settings -> 'kind'
    )
returning name
