-- $1 now
select {{now}}
