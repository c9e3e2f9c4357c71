-- $1 now   $2 channel   $3 name   $4 definition   $5 its rule   $6 seconds to keep ledger rows
-- $7 the revision it must still be at (null: any, or none at all; 0: none at all)
-- uses: schedules_changed
-- let channel: $2::text
with edited as (
    update {{schema}}.schedule
    set changed_at = case when rule <> $5::text
            then {{now}} else changed_at end,
        definition = $4::text, rule = $5::text, keep = $6::float8, edited = true,
        revision = revision + 1
    where $7::int is not null and name = $3::text and revision = $7::int
    returning name
),
made as (
    insert into {{schema}}.schedule as old (name, definition, rule, keep, edited, created_at)
    select $3::text, $4::text, $5::text, $6::float8, true, {{now}}
    where coalesce($7::int, 0) = 0
    on conflict (name) do update set
        changed_at = case when old.rule <> excluded.rule
            then excluded.created_at else old.changed_at end,
        definition = excluded.definition, rule = excluded.rule, keep = excluded.keep,
        edited = true,
        revision = old.revision + 1
    where $7::int is null
    returning name
),
changed as (
    select name from edited union all select name from made
),
{{schedules_changed}}
select changed.name, woken.calls from changed cross join woken
