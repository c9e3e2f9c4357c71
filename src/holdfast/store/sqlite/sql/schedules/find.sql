select
    name, definition, paused, edited, revision, created_at, declared_at,
    error, error_at, paused_at, resumed_at, changed_at, rival, rival_at, pruned_from, pruned_until
from holdfast_schedule
where :names is null or name in (select value from json_each(:names))
order by name
