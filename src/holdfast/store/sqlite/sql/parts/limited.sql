-- name: find
select id from holdfast_line where queue = ? and priority = ? and task = ? and buckets = ?

-- name: add
insert into holdfast_line (queue, priority, task, buckets, turn) values (?, ?, ?, ?, ?) returning id

-- name: stand
insert into holdfast_ready (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    ready_at, line
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: keep
insert into holdfast_limited (job_id, buckets) values (?, ?)

-- name: standing
select job_id, queue, priority, seq, task, attempts, crashes, fence, ties, ready_at
from holdfast_ready
where ties & 2 and job_id in (select value from json_each(?))

-- name: blocked
select b.job_id, b.queue, b.priority, b.seq, b.task, b.attempts, b.crashes, b.fence, b.ties
from json_each(?) as wanted
cross join holdfast_blocked as b on b.job_id = wanted.value
cross join holdfast_node as n on n.job_id = b.job_id
where coalesce(n.delay, 0) = 0 and b.ties & 2

-- name: leave
delete from holdfast_ready where job_id in (select value from json_each(?))
