-- $1 now   $2 channel   $3 names   $4 definitions   $5 their rules   $6 seconds to keep
-- ledger rows
-- An operator's edit is never overwritten. Wakes only for news: every worker that starts declares
-- the same again. The row as it was is seen by the statement's snapshot; at worst that wakes once
-- too often or leaves it to the program that declared the same a moment before.
with new as materialized (
    select name, definition, rule, keep
    from unnest($3::text[], $4::text[], $5::text[], $6::float8[])
        as given (name, definition, rule, keep)
),
news as materialized (
    select from new left join {{schema}}.schedule as old on old.name = new.name
    where old.name is null or (not old.edited and old.definition <> new.definition)
    limit 1
),
declared as (
    insert into {{schema}}.schedule as old
        (name, definition, rule, keep, edited, created_at, declared_at)
    select name, definition, rule, keep, false, coalesce($1::timestamptz, now()),
        coalesce($1::timestamptz, now())
    from new order by name
    on conflict (name) do update set
        revision = old.revision
            + (not old.edited and old.definition <> excluded.definition)::int,
        changed_at = case when not old.edited and old.rule <> excluded.rule
            then excluded.declared_at else old.changed_at end,
        rule = case when old.edited then old.rule else excluded.rule end,
        keep = case when old.edited then old.keep else excluded.keep end,
        definition = case when old.edited then old.definition else excluded.definition end,
        declared_at = excluded.declared_at
),
counted as (
    insert into {{schema}}.signal as kept (topic, name)
    select 'schedules', '' from news limit 1
    on conflict (topic, name) do update set n = kept.n + 1
)
select pg_notify($2::text, 'schedules') from news
