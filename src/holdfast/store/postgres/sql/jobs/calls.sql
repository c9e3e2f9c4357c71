-- $1 ids
-- The task and arguments of those ids that are in the store.
select id::text, task, args from {{schema}}.job where id = any ($1::uuid[])
