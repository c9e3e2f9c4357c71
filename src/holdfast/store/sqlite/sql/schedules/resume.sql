update holdfast_schedule
set
    revision = revision + paused,
    resumed_at = iif(paused, :now, resumed_at),
    paused = 0
where name in (select value from json_each(:names))
returning name
