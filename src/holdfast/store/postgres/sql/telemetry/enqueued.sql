-- $1 now   $2 queues   $3 tasks   $4 places   $5 numbers of jobs
-- Counts jobs that were copied into their places.
insert into {{schema}}.move (at, queue, task, source, target, what, jobs)
select {{now}}, queue, task, '', place, 'enqueued', jobs
from unnest($2::text[], $3::text[], $4::text[], $5::bigint[]) as given (queue, task, place, jobs)
