insert into job (id, state, args) values (?, ?, ?)
