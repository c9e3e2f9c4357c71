-- $1 ids   $2 reason
update {{schema}}.flow set state = 'paused', reason = $2::text
where id = any ($1::uuid[]) and state = 'running'
returning id::text
