-- $1 ids
-- A statement of its own: the next one sees what was committed before the locks were got.
select id::text from {{schema}}.flow where id = any ($1::uuid[]) order by id for update
