-- $1 names (null: all)
select name, definition, paused, edited, revision, created_at, declared_at, error, error_at,
    paused_at, resumed_at, changed_at, rival, rival_at, pruned_from, pruned_until
from {{schema}}.schedule
where $1::text[] is null or name = any ($1::text[])
order by name
