update holdfast_flow set state = 'running'
where id in (select value from json_each(?)) and state = 'paused'
returning id
