update flow set open = open - 1 where id = (select flow_id from node where id = ?)
