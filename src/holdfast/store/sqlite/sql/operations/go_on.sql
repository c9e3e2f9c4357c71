update holdfast_operation
set state = 'running', revision = revision + 1, advanced_at = :now
where id in (select value from json_each(:ids)) and state in ('stopped', 'waiting')
returning id
