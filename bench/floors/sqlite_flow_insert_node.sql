insert into node (id, flow_id, waits, args) values (?, ?, ?, ?)
