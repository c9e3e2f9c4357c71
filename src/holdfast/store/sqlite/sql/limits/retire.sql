update holdfast_limit_rule set retired = 1, revision = revision + 1
where name in (select value from json_each(?))
returning name
