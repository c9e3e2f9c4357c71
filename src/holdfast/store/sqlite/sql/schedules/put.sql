-- name: edit
update holdfast_schedule
set
    changed_at = iif(rule <> :rule, :now, changed_at),
    definition = :definition,
    rule = :rule,
    keep = :keep,
    edited = 1,
    revision = revision + 1
where name = :name and (:revision is null or revision = :revision)
returning name

-- name: create
insert into holdfast_schedule (name, definition, rule, keep, edited, revision, created_at)
values (:name, :definition, :rule, :keep, 1, 1, :now)
on conflict (name) do nothing
returning name
