select kind, key, value, revision, expires_at from holdfast_shelf
where kind = :kind and key in (select value from json_each(:keys))
    and (expires_at is null or expires_at > :now)
order by key
