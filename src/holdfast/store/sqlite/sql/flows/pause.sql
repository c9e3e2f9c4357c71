update holdfast_flow set state = 'paused'
where id in (select value from json_each(?)) and state = 'running'
returning id
