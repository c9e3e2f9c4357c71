-- $1 now   $2 seconds that a minute stays open
-- Finds the oldest minute that is not rolled up, and closes it, if it is over for long enough and all
-- moves of that time are folded. `fold` holds the row of `rolling` while it adds to minutes, so none is
-- closed while it is being added to.
with found as materialized (
    select rolled, closed, least(
        (select min(minute) from {{schema}}.traffic where minute >= rolled),
        (select min(minute) from {{schema}}.measure where minute >= rolled)
    ) as minute
    from {{schema}}.rolling
),
closing as (
    update {{schema}}.rolling as old set closed = found.minute + interval '1 minute'
    from found
    where old.closed <= found.minute
    and found.minute < date_trunc('minute', {{now}} - $2::float8 * interval '1 second')
    and not exists (
        select from {{schema}}.move where date_trunc('minute', move.at) <= found.minute
    )
    returning old.closed
)
select rolled, minute from found
where minute < closed or exists (select from closing)
