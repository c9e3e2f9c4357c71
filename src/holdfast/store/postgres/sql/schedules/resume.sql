-- $1 now   $2 channel   $3 names
with named as materialized (
    select name from {{schema}}.schedule where name = any ($3::text[])
    order by name for no key update
),
changed as (
    update {{schema}}.schedule
    set revision = revision + paused::int,
        resumed_at = case when paused then coalesce($1::timestamptz, now()) else resumed_at end,
        paused = false
    where name = any (array(select name from named))
    returning name
),
counted as (
    insert into {{schema}}.signal as kept (topic, name)
    select 'schedules', '' from changed limit 1
    on conflict (topic, name) do update set n = kept.n + 1
),
woken as (
    select count(pg_notify($2::text, 'schedules')) as calls from (select from changed limit 1) as any_of_them
)
select changed.name, woken.calls from changed cross join woken order by changed.name
