delete from holdfast_shelf
where kind = :kind and key in (select value from json_each(:keys))
returning key, expires_at is null or expires_at > :now
