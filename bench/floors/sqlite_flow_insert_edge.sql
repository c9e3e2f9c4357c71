insert into edge (upstream, downstream) values (?, ?)
