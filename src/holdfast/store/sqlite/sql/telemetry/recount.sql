-- The jobs of a range of ids. A place is grouped by itself: the view of all places would have every
-- column of every row copied first.

-- name: live
select queue, task, count(*)
from {{place}}
where job_id > :low and job_id <= :high
group by queue, task

-- name: ended
select queue, task, state, count(*)
from holdfast_outcome
where job_id > :low and job_id <= :high
group by queue, task, state

-- name: books
select queue, task, state, -jobs from holdfast_tally
union all
select queue, task, target, -jobs from holdfast_move where target <> ''
union all
select queue, task, source, jobs from holdfast_move where source <> ''
