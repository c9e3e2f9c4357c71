update holdfast_flow set state = 'running', reason = null
where id in (select value from json_each(?)) and state = 'paused'
returning id
