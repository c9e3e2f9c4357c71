-- $1 now   $2 id   $3 outcome   $4 changed   $5 error
update {{schema}}.audit
set closed_at = {{now}}, outcome = $3::text, changed = $4::bigint, error = $5::text
where id = $2::uuid
