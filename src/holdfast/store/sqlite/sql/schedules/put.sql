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

-- name: create
insert into holdfast_schedule (name, definition, rule, keep, edited, revision, created_at)
values (?1, ?2, ?3, ?4, 1, 1, ?5)
on conflict (name) do nothing
returning name
