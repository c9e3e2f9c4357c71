-- name: change
update holdfast_shelf
set value = :value, revision = revision + 1, expires_at = :expires_at
where kind = :kind and key = :key and revision = :revision
    and (expires_at is null or expires_at > :now)
returning revision

-- name: make
insert into holdfast_shelf (kind, key, value, revision, expires_at)
values (:kind, :key, :value, 1, :expires_at)
on conflict (kind, key) do update set
    value = excluded.value,
    revision = case when holdfast_shelf.expires_at <= :now then 1 else holdfast_shelf.revision + 1 end,
    expires_at = excluded.expires_at
where :revision is null or holdfast_shelf.expires_at <= :now
returning revision
