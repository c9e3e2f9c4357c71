-- name: known
select name, definition, edited, code_since, code_seen_at
from holdfast_schedule
where name in (select value from json_each(?))

-- name: declare
insert into holdfast_schedule (
    name, definition, rule, keep, edited, revision, created_at, declared_at, code_since, code_seen_at
)
values (?1, ?2, ?3, ?4, 0, 1, ?5, ?5, ?6, ?5)
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
set declared_at = ?2, code_seen_at = ?2, code_since = max(coalesce(code_since, ?3), ?3)
where name = ?1

-- name: contest
update holdfast_schedule
set declared_at = ?2, rival = iif(edited, null, ?3), rival_at = iif(edited, null, ?2)
where name = ?1
