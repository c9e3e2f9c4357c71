-- Wakes workers and promoters, once a statement. Expects `now_ready` (queue), one row for each job
-- that became ready, and `now_timed`, any row at all if the next due time may be sooner now.
-- A few jobs of one queue are announced with their number, on the channel of few: workers that doze
-- do not listen there. Very many names become none, which means any queue.
woken as (
    select count(pg_notify($2::text || few, payload)) as calls
    from (
        select case when length(string_agg(distinct queue, ',')) >= 2000
            then 'ready:' else 'ready:' || string_agg(distinct queue, ',')
                || case when count(*) <= 8 and min(queue) = max(queue) then '=' || count(*) else '' end
            end as payload,
            case when count(*) <= 8 and min(queue) = max(queue) then '_few' else '' end as few
        from now_ready
        union all
        (select 'due', '' from now_timed limit 1)
    ) as hints
    where payload is not null
)
