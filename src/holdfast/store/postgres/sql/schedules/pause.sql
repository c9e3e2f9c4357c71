-- $1 now   $2 channel   $3 names
-- uses: schedules_changed
-- let channel: $2::text
with named as materialized (
    select name from {{schema}}.schedule where name = any ($3::text[])
    order by name for no key update
),
changed as (
    update {{schema}}.schedule
    set revision = revision + (not paused)::int,
        paused_at = case when paused then paused_at
            else {{now}} end,
        resumed_at = case when paused then resumed_at end,
        paused = true
    where name = any (array(select name from named))
    returning name
),
{{schedules_changed}}
select changed.name, woken.calls from changed cross join woken order by changed.name
