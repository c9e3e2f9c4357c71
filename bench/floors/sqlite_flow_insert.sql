insert into flow (id, open) values (?, ?)
