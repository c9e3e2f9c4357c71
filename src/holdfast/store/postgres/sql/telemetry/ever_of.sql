-- $1 queues   $2 tasks
select ever.queue, ever.task, ever.times
from unnest($1::text[], $2::text[]) as wanted (queue, task)
join {{schema}}.ever on ever.queue = wanted.queue and ever.task = wanted.task
