-- $1 id, $2 arguments
with body as (
    insert into job (id, args) values ($1, $2) returning id
)
insert into ready (id) select id from body
