-- $1 channel   $2 names
with paused as (
    insert into {{schema}}.queue (name, paused)
    select name, true from unnest($2::text[]) as given (name) order by name
    on conflict (name) do update set paused = true
)
select count(pg_notify($1::text, 'paused:' || name)) from unnest($2::text[]) as given (name)
