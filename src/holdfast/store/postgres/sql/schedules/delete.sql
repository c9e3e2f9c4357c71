-- $1 channel   $2 names
-- uses: schedules_changed
-- let channel: $1::text
-- The schedules are locked first: a recorder that is under way ends before the delete, and a later
-- recorder finds them gone. Rows that the earlier recorder wrote are younger than the snapshot of this
-- statement, so forget.sql removes them in a statement of its own.
with named as materialized (
    select name from {{schema}}.schedule where name = any ($2::text[]) order by name for update
),
changed as (
    delete from {{schema}}.schedule where name = any (array(select name from named))
    returning name
),
{{schedules_changed}}
select changed.name, woken.calls from changed cross join woken order by changed.name
