-- name: declare
-- An edit is kept, unless the limit `begins_anew`: it was of another kind and is retired.
insert into holdfast_limit_rule (name, settings)
values (:name, :settings)
on conflict (name) do update set
    settings = iif(edited and not :begins_anew, settings, excluded.settings),
    edited = edited and not :begins_anew,
    retired = 0,
    revision = revision + (retired or not edited and settings <> excluded.settings)
where retired or not edited and settings <> excluded.settings

-- name: counts
-- Whether a bucket of this limit counts something. ';' stands right behind ':' in the order of bytes.
select exists (
    select 1 from holdfast_bucket where name >= :name || ':' and name < :name || ';' and in_use <> 0
)

-- name: look again
-- Those who claim look at the buckets of this limit again. Answers the queues of who waits there.
update holdfast_bucket set opens_at = :now
where name >= :name || ':' and name < :name || ';' and has_waiting

-- name: waiting queues
select distinct l.queue
from holdfast_bucket as b
cross join holdfast_line as l on l.parked_at = b.name
where b.name >= :name || ':' and b.name < :name || ';' and b.has_waiting

-- name: forget books
-- The books and overrides of another kind of limit mean nothing any more.
update holdfast_bucket set state = null, rings = 0, override = null
where name >= :name || ':' and name < :name || ';'
