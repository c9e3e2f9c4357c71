-- name: first jobs
-- Of the lines that are parked at a bucket: those that can never pass there, or the others.
select r.job_id, l.task, l.queue, l.need
from holdfast_line as l
cross join holdfast_ready as r on r.line = l.id and r.queue = l.queue and r.priority = l.priority
    and r.seq = (
        select min(x.seq) from holdfast_ready as x
        where x.line = l.id and x.queue = l.queue and x.priority = l.priority
    )
where l.parked_at = :name and (l.need > :most_passing) = :never
order by l.priority, l.turn, l.id
limit :limit

-- name: stuck
-- How many lines can never pass.
select count(*) from holdfast_line where parked_at = ? and need > ?
