-- $1 where `rolled` was   $2 where it goes
-- $3 steps   $4 when they began   $5 queues   $6 tasks   $7 grains   $8 counts   $9 times: the points
-- $10 queues   $11 tasks   $12 times: all times ever measured
-- Nothing is written if another program was faster.
with mine as materialized (
    update {{schema}}.rolling set rolled = $2::timestamptz where rolled = $1::timestamptz
    returning true as is_so
),
to_series as (
    insert into {{schema}}.series (step, at, queue, task, grain, counts, times)
    select given.*
    from unnest($3::int[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[])
        as given (step, at, queue, task, grain, counts, times)
    where exists (select from mine)
    on conflict (step, queue, task, at) do update set counts = excluded.counts, times = excluded.times
),
to_ever as (
    insert into {{schema}}.ever (queue, task, times)
    select given.*
    from unnest($10::text[], $11::text[], $12::bytea[]) as given (queue, task, times)
    where exists (select from mine)
    on conflict (queue, task) do update set times = excluded.times
),
forgotten as (
    delete from {{schema}}.measure where minute < $2::timestamptz and exists (select from mine)
)
select is_so from mine
