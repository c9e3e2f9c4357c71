update holdfast_schedule
set
    revision = revision + (not paused),
    paused_at = iif(paused, paused_at, :now),
    resumed_at = case when paused then resumed_at end,
    paused = 1
where name in (select value from json_each(:names))
returning name
