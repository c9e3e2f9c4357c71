-- $1 ids
-- What those that are there are calls of.
select id::text, task, args from {{schema}}.job where id = any ($1::uuid[])
