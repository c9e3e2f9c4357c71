-- $1 limits
select name from {{schema}}.limit_rule where name = any ($1::text[])
