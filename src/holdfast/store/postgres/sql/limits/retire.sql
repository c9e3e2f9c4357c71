-- $1 names
update {{schema}}.limit_rule set retired = true, revision = revision + 1
where name = any ($1::text[])
returning name
