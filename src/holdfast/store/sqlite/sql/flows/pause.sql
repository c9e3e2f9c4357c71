update holdfast_flow set state = 'paused', reason = :reason
where id in (select value from json_each(:ids)) and state = 'running'
returning id
