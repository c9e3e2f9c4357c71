-- $1 now   $2 channel   $3 names   $4 definitions   $5 their rules   $6 seconds to keep
-- ledger rows   $7 since when the program runs (null: now)   $8 seconds that a declaration counts
-- uses: schedules_changed
-- let channel: $2::text
-- An operator's edit is never overwritten, nor is the declaration of a program that runs since later.
-- Evaluators are woken only if something changes: every worker that starts declares the same again.
-- Whether it changes is judged by the statement's snapshot. If two programs declare at one moment,
-- evaluators are at worst woken twice, or only by the other program.
with times as materialized (
    select {{now}} as now,
        coalesce($7::timestamptz, {{now}}) as since,
        {{now}} - $8::float8 * interval '1 second' as long_ago
),
new as materialized (
    select name, definition, rule, keep
    from unnest($3::text[], $4::text[], $5::text[], $6::float8[])
        as given (name, definition, rule, keep)
),
changed as materialized (
    select from new cross join times left join {{schema}}.schedule as old on old.name = new.name
    where old.name is null or (
        not old.edited and old.definition <> new.definition
        and (old.code_since <= times.since or old.code_seen_at < times.long_ago)
    )
    limit 1
),
declared as (
    insert into {{schema}}.schedule as old
        (name, definition, rule, keep, edited, created_at, declared_at, code_since, code_seen_at)
    select name, definition, rule, keep, false, times.now, times.now, times.since, times.now
    from new cross join times order by name
    on conflict (name) do update set (
        definition, rule, keep, revision, changed_at, code_since, code_seen_at, rival, rival_at,
        declared_at
    ) = (
        select
            case when wins.is then excluded.definition else old.definition end,
            case when wins.is then excluded.rule else old.rule end,
            case when wins.is then excluded.keep else old.keep end,
            old.revision + (wins.is and differs.is)::int,
            case when wins.is and old.rule <> excluded.rule
                then excluded.declared_at else old.changed_at end,
            case when wins.is then excluded.code_since else old.code_since end,
            case when wins.is or not differs.is
                then excluded.code_seen_at else old.code_seen_at end,
            case when differs.is and not wins.is and not old.edited then excluded.definition
                when not differs.is then old.rival end,
            case when differs.is and not wins.is and not old.edited then excluded.declared_at
                when not differs.is then old.rival_at end,
            excluded.declared_at
        from (select old.definition <> excluded.definition as is) as differs
        cross join (
            select not old.edited and (
                old.code_since <= excluded.code_since
                or old.code_seen_at < (select long_ago from times)
            ) as is
        ) as wins
    )
),
{{schedules_changed}}
select calls from woken
