-- name: find
select l.buckets, l.id, l.weight, l.costly, l.parked_at
from json_each(?) as wanted
cross join holdfast_line as l on l.queue = ? and l.priority = ? and l.task = ? and l.buckets = wanted.value

-- name: next
-- The number and the turn of a new line of this queue and priority.
select
    (select coalesce(max(id), 0) + 1 from holdfast_line),
    coalesce((select turn from holdfast_turn where queue = ? and priority = ?), 0)

-- name: add
with new (id, buckets, fair) as (values (?, ?, ?))
insert or fail into holdfast_line (id, turn, queue, priority, task, buckets, costly, aside, fair, labels, weight)
select
    n.id, ?, ?, ?, ?, n.buckets, ?, ?, n.fair, ?,
    coalesce((select w.weight from holdfast_weight as w where w.fair = n.fair), ?)
from new as n

-- name: change
update holdfast_line
set weight = coalesce((select w.weight from holdfast_weight as w where w.fair = :fair), :weight), costly = :costly
where id = :id

-- name: stand
with standing (job_id, seq, ready_at, line) as (values (?, ?, ?, ?))
insert or fail into holdfast_ready (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    ready_at, line
)
select
    s.job_id, ?, ?, s.seq, ?, ?, ?, ?, ?,
    s.ready_at, s.line
from standing as s

-- name: stand aside
update holdfast_ready set line = ? where line = ? and queue = ? and priority = ? and seq = ?

-- name: standing
select job_id, queue, priority, seq, task, attempts, crashes, fence, ties, ready_at
from holdfast_ready
where ties & 2 and job_id in (select value from json_each(?))

-- name: parked lines
select distinct l.id, l.parked_at, l.queue
from holdfast_ready as r
cross join holdfast_line as l on l.id = r.line and l.parked_at is not null
where r.job_id in (select value from json_each(?))

-- name: blocked
select b.job_id, b.queue, b.priority, b.seq, b.task, b.attempts, b.crashes, b.fence, b.ties
from json_each(?) as wanted
cross join holdfast_blocked as b on b.job_id = wanted.value
cross join holdfast_node as n on n.job_id = b.job_id
where coalesce(n.delay, 0) = 0 and b.ties & 2

-- name: leave
delete from holdfast_ready where job_id in (select value from json_each(?))
