-- $1 minutes   $2 sources   $3 queues   $4 tasks   $5 numbers   $6 times
-- The rows come sorted, so that two calls about the same source never wait for each other in a circle.
with rolling as materialized (
    select closed from {{schema}}.rolling
),
written as (
    insert into {{schema}}.measure as old (minute, source, queue, task, number, times)
    select given.*
    from unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[])
        as given (minute, source, queue, task, number, times)
    where given.minute >= (select closed from rolling)
    on conflict (minute, source, queue, task) do update
    set number = excluded.number, times = excluded.times
    where old.number < excluded.number
)
select closed from rolling
