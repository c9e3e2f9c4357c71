update holdfast_schedule
set
    revision = revision + paused,
    resumed_at = iif(paused, ?2, resumed_at),
    paused = 0
where name in (select value from json_each(?1))
returning name
