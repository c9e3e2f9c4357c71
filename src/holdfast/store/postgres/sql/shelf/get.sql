-- $1 now   $2 kind   $3 keys
select kind, key, value, revision, expires_at from {{schema}}.shelf
where kind = $2::text and key = any ($3::text[]) and (expires_at is null or expires_at > {{now}})
order by key
