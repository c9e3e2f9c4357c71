update holdfast_operation
set state = 'stopped', revision = revision + 1, advanced_at = :now
where id in (select value from json_each(:ids)) and state in ('running', 'waiting')
returning id
