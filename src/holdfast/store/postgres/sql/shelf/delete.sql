-- $1 now   $2 kind   $3 keys
delete from {{schema}}.shelf where kind = $2::text and key = any ($3::text[])
returning key, expires_at is null or expires_at > {{now}} as was_there
