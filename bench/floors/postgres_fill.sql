-- $1 how many jobs
with body as (
    insert into job (id, args)
    select n, '{"number":' || n || '}' from generate_series(1, $1::int) as n
    returning id
)
insert into ready (id) select id from body
