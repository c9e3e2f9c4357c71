-- $1 now   $2 ids
update {{schema}}.operation
set state = 'stopped', revision = revision + 1, advanced_at = {{now}}
where id = any ($2::uuid[]) and state in ('running', 'waiting')
returning id
