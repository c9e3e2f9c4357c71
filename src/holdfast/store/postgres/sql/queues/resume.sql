-- $1 channel   $2 names
-- Ends any cool-down too.
with resumed as (
    update {{schema}}.queue set paused = false, cool_until = null, throttles = 0
    where name = any ($2::text[])
)
select count(pg_notify($1::text, 'ready:' || name)) from unnest($2::text[]) as given (name)
