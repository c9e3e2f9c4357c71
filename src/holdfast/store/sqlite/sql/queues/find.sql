-- name: settings
select name, paused, cool_until, throttles, settings from holdfast_queue where substr(name, 1, 1) <> ?

-- name: oldest
-- The first job of a line (queue and priority) is its oldest: a few steps of the index for each line,
-- however many jobs wait in it.
with recursive waiting (queue) as (
    select min(queue) from holdfast_ready where line = 0
    union all
    select (select min(queue) from holdfast_ready where line = 0 and queue > waiting.queue)
    from waiting where waiting.queue is not null
),
line (queue, priority) as (
    select queue, (select min(r.priority) from holdfast_ready as r where r.line = 0 and r.queue = waiting.queue)
    from waiting
    where queue is not null
    union all
    select queue, (
        select min(r.priority) from holdfast_ready as r
        where r.line = 0 and r.queue = line.queue and r.priority > line.priority
    )
    from line
    where priority is not null
)
select queue, min(ready_at)
from (
    select queue, (
        select r.ready_at from holdfast_ready as r
        where r.line = 0 and r.queue = line.queue and r.priority = line.priority
        order by r.seq limit 1
    ) as ready_at
    from line
    where priority is not null
    union all
    select queue, (
        select r.ready_at from holdfast_ready as r
        where r.line = l.id and r.queue = l.queue and r.priority = l.priority
        order by r.seq limit 1
    )
    from (select id, queue, priority from holdfast_line order by turn limit 1000) as l
)
group by queue
