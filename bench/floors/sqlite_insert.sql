insert into job (args) values (?1)
