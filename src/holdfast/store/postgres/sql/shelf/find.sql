-- $1 now   $2 kind   $3 limit   $4 the key that they stand behind (null: from the first)
select kind, key, value, revision, expires_at from {{schema}}.shelf
where kind = $2::text and ($4::text is null or key > $4::text)
and (expires_at is null or expires_at > {{now}})
order by key
limit $3::int
