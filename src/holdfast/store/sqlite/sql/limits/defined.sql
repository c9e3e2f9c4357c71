select name from holdfast_limit_rule where name in (select value from json_each(?))
