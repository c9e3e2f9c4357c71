-- $1 ids   $2 unique keys
-- The names of flows that are there, and the live flows that have the keys.
select asked.id::text, mine.name, holder.id::text as holder
from unnest($1::uuid[], $2::text[]) as asked (id, unique_key)
left join lateral (
    select name from {{schema}}.flow where flow.id = asked.id limit 1
) as mine on true
left join lateral (
    select flow.id from {{schema}}.flow
    where flow.unique_key = asked.unique_key and flow.finished_at is null limit 1
) as holder on true
