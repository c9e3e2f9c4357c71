insert into job (args) values (?)
