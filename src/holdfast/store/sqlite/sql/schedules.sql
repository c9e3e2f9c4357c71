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

-- name: create
insert into holdfast_schedule (name, definition, rule, keep, edited, revision, created_at)
values (?1, ?2, ?3, ?4, 1, 1, ?5)
on conflict (name) do nothing
returning name

-- name: edit
update holdfast_schedule
set
    changed_at = iif(rule <> ?3, ?5, changed_at),
    definition = ?2,
    rule = ?3,
    keep = ?4,
    edited = 1,
    revision = revision + 1
where name = ?1 and (?6 is null or revision = ?6)
returning name

-- name: pause
update holdfast_schedule
set
    revision = revision + (not paused),
    paused_at = iif(paused, paused_at, ?2),
    resumed_at = case when paused then resumed_at end,
    paused = 1
where name in (select value from json_each(?1))
returning name

-- name: resume
update holdfast_schedule
set
    revision = revision + paused,
    resumed_at = iif(paused, ?2, resumed_at),
    paused = 0
where name in (select value from json_each(?1))
returning name

-- name: delete
delete from holdfast_schedule where name in (select value from json_each(?)) returning name

-- name: delete cursors
delete from holdfast_schedule_cursor where schedule = ?

-- name: delete ledger
delete from holdfast_ledger where schedule = ?

-- name: delete started
delete from holdfast_started where schedule = ?

-- name: complain
update holdfast_schedule set error = ?2, error_at = ?3 where name = ?1 and error is not ?2

-- name: list
select
    name, definition, paused, edited, revision, created_at, declared_at,
    error, error_at, paused_at, resumed_at, changed_at, rival, rival_at, pruned_from, pruned_until
from holdfast_schedule
where ?1 is null or name in (select value from json_each(?1))
order by name
