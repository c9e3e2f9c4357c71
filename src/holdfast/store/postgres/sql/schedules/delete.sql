-- $1 channel   $2 names
-- uses: schedules_changed
-- let channel: $1::text
-- Locked first: a record that is under way ends before it, and a later one finds it gone. Rows
-- that such a record wrote are younger than this snapshot; forget.sql follows for them.
with named as materialized (
    select name from {{schema}}.schedule where name = any ($2::text[]) order by name for update
),
changed as (
    delete from {{schema}}.schedule where name = any (array(select name from named))
    returning name
),
{{schedules_changed}}
select changed.name, woken.calls from changed cross join woken order by changed.name
