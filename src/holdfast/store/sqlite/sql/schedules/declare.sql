-- name: known
select name, definition, edited, code_since, code_seen_at
from holdfast_schedule
where name in (select value from json_each(?))

-- name: declare
insert into holdfast_schedule (
    name, definition, rule, keep, edited, revision, created_at, declared_at, code_since, code_seen_at
)
values (:name, :definition, :rule, :keep, 0, 1, :now, :now, :since, :now)
on conflict (name) do update set
    revision = revision + 1,
    changed_at = iif(rule <> excluded.rule, excluded.declared_at, changed_at),
    rule = excluded.rule,
    keep = excluded.keep,
    definition = excluded.definition,
    declared_at = excluded.declared_at,
    code_since = excluded.code_since,
    code_seen_at = excluded.code_seen_at,
    rival = null,
    rival_at = null

-- name: confirm
update holdfast_schedule
set
    declared_at = :now,
    code_seen_at = :now,
    code_since = max(coalesce(code_since, :since), :since)
where name = :name

-- name: contest
update holdfast_schedule
set
    declared_at = :now,
    rival = iif(edited, null, :definition),
    rival_at = iif(edited, null, :now)
where name = :name
