delete from holdfast_series
where (step, queue, task, at) in (
    select step, queue, task, at from holdfast_series
    where step = ? and grain = ? and at < ?
    limit ?
)
