-- Tells evaluators that schedules changed: a counter for those that poll, and `woken` for those that
-- listen. Expects `changed` (any row at all), and takes the word `channel`.
counted as (
    insert into {{schema}}.counter as kept (topic, name)
    select 'schedules', '' from changed limit 1
    on conflict (topic, name) do update set n = kept.n + 1
),
woken as (
    select count(pg_notify({{channel}}, 'schedules')) as calls
    from (select from changed limit 1) as any_of_them
)
