-- $1 id
select created_at from {{schema}}.job where id = $1::uuid
