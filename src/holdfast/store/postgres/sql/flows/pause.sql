-- $1 ids
update {{schema}}.flow set state = 'paused' where id = any ($1::uuid[]) and state = 'running'
returning id::text
