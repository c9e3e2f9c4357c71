-- $1 ids
update {{schema}}.flow set state = 'running', reason = null
where id = any ($1::uuid[]) and state = 'paused'
returning id::text
