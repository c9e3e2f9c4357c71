-- $1 channel   $2 names
-- Locked first: a record that is under way ends before it, and a later one finds it gone. Rows
-- that such a record wrote are younger than this snapshot; schedules_forget.sql follows for them.
with named as materialized (
    select name from {{schema}}.schedule where name = any ($2::text[]) order by name for update
),
gone as (
    delete from {{schema}}.schedule where name = any (array(select name from named))
    returning name
),
counted as (
    insert into {{schema}}.signal as kept (topic, name)
    select 'schedules', '' from gone limit 1
    on conflict (topic, name) do update set n = kept.n + 1
),
woken as (
    select count(pg_notify($1::text, 'schedules')) as calls from (select from gone limit 1) as any_of_them
)
select gone.name, woken.calls from gone cross join woken order by gone.name
