-- name: rolled
select rolled from holdfast_rolling

-- name: of named
select s.at, s.queue, s.task, s.counts, s.times
from json_each(:pairs) as pair
cross join holdfast_series as s
    on s.step = :step
    and s.queue = json_extract(pair.value, '$[0]')
    and s.task = json_extract(pair.value, '$[1]')
    and s.at >= :since
    and s.at < :until

-- name: of all
select at, queue, task, counts, times
from holdfast_series indexed by holdfast_series_at
where step = :step
    and grain = :grain
    and at >= :since
    and at < :until
    and (:queues is null or queue in (select value from json_each(:queues)))
    and (:tasks is null or task in (select value from json_each(:tasks)))

-- name: counted
select
    minute,
    case when :grain = 'all' then '' else queue end as of_queue,
    case when :grain = 'task' then task else '' end as of_task,
    what,
    sum(jobs)
from (
    select minute, queue, task, what, jobs from holdfast_traffic
    where minute >= :since and minute < :until
    union all
    select max(minute, closed), queue, task, what, jobs from holdfast_move cross join holdfast_rolling
)
where minute >= :since
    and minute < :until
    and (:queues is null or queue in (select value from json_each(:queues)))
    and (:tasks is null or task in (select value from json_each(:tasks)))
group by minute, of_queue, of_task, what

-- name: measured
select minute, queue, task, times from holdfast_measure
where minute >= :since
    and minute < :until
    and (:queues is null or queue in (select value from json_each(:queues)))
    and (:tasks is null or task in (select value from json_each(:tasks)))
order by queue, task
