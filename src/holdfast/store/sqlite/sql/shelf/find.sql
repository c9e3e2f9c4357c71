select kind, key, value, revision, expires_at from holdfast_shelf
where kind = :kind and (:after is null or key > :after)
    and (expires_at is null or expires_at > :now)
order by key
limit :limit
