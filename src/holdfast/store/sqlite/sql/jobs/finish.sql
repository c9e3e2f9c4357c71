-- name: find running
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts, p.crashes, p.fence, p.ties,
    d.at, p.ready_at, p.worker_id, p.claimed_at, p.cancel_requested_at, j.policy,
    p.buckets, p.costs, p.spent
from json_each(?) as wanted
cross join holdfast_lease as p on p.job_id = wanted.value
left join holdfast_deadline as d on d.job_id = p.job_id
left join holdfast_job as j on j.id = p.job_id and p.cancel_requested_at is not null

-- name: find waiting
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts, p.crashes, p.fence, p.ties,
    (select d.at from holdfast_deadline as d where d.job_id = p.job_id),
    null, null, null, null, null, null, null, null
from holdfast_place as p
where p.state = ? and not p.ended and p.job_id in (select value from json_each(?))

-- name: end
insert into holdfast_outcome (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    deadline_at, worker_id, claimed_at, cancel_requested_at,
    state, finished_at, expires_at, reason, result, fingerprint
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: retentions
select name, settings from holdfast_queue where settings <> '{}'

-- name: succeed
-- The outcomes of plain successes are their leases and results. A lease with other ties is left out:
-- the count of what was copied then tells that the batch has to take the long way.
insert into holdfast_outcome (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    deadline_at, worker_id, claimed_at, cancel_requested_at,
    state, finished_at, expires_at, result
)
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts + 1, p.crashes, p.fence, p.ties,
    d.at, p.worker_id, p.claimed_at, p.cancel_requested_at,
    'succeeded', ?,
    iif(
        json_extract(q.settings, '$.retain_succeeded') is null,
        ?,
        min(?, ? + cast(round(json_extract(q.settings, '$.retain_succeeded') * 1000000) as integer))
    ),
    ended.value
from json_each(?) as ended
cross join holdfast_lease as p on p.job_id = ended.key and p.fence = ? and p.ties & {{bound}} = 0
left join holdfast_deadline as d on d.job_id = p.job_id
left join holdfast_queue as q on q.name = p.queue and q.settings <> '{}'

-- name: receipts
-- What successes that hold permits have counted. Those that are alike come together.
select p.buckets, p.costs, p.spent, count(*)
from json_each(?) as ended
cross join holdfast_lease as p on p.job_id = ended.value and p.buckets is not null
group by p.buckets, p.costs, p.spent

-- name: succeed nodes
-- The same for nodes of flows. A node is kept as long as its flow. `or fail`: see `flows/settle`.
insert or fail into holdfast_outcome (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    deadline_at, worker_id, claimed_at, cancel_requested_at,
    state, finished_at, result
)
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts + 1, p.crashes, p.fence, p.ties,
    d.at, p.worker_id, p.claimed_at, p.cancel_requested_at,
    'succeeded', ?, ended.value
from json_each(?) as ended
cross join holdfast_lease as p on p.job_id = ended.key and p.fence = ? and p.ties & ~128 = ?
left join holdfast_deadline as d on d.job_id = p.job_id

-- name: held node
-- All that the end of one node has to know: of its lease, whether any job has a deadline, its edges,
-- and its flow as it is once the node is taken from the live ones. Looked at before it is written to:
-- a statement that returns what it changes takes twice as long.
select
    l.queue, l.task, exists (select 1 from holdfast_deadline), n.edges,
    f.id, f.state, f.open - 1, f.failed, f.cancel_asked, f.keep, f.parent, f.finished_at
from holdfast_lease as l
cross join holdfast_node as n on n.job_id = l.job_id
cross join holdfast_flow as f on f.id = n.flow_id
where l.job_id = ? and l.fence = ? and l.ties & ~128 = ?

-- name: succeed node
insert into holdfast_outcome (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    deadline_at, worker_id, claimed_at, cancel_requested_at,
    state, finished_at, result
)
select
    p.job_id, p.queue, p.priority, p.seq, p.task, p.attempts + 1, p.crashes, p.fence, p.ties,
    d.at, p.worker_id, p.claimed_at, p.cancel_requested_at,
    'succeeded', ?, ?
from holdfast_lease as p
left join holdfast_deadline as d on d.job_id = p.job_id
where p.job_id = ?

-- name: undo nodes
delete from holdfast_outcome
where job_id in (
    select p.job_id from json_each(?) as ended cross join holdfast_lease as p on p.job_id = ended.value
)

-- name: count
-- What `Transaction.count` would note of these successes. Read here, no job of them passes Python.
insert into holdfast_move (minute, queue, task, source, target, what, jobs)
select ?, p.queue, p.task, 'running', 'succeeded', 'succeeded', count(*)
from json_each(?) as ended
cross join holdfast_lease as p on p.job_id = ended.value
group by p.queue, p.task
on conflict do update set jobs = jobs + excluded.jobs

-- name: any deadline
select exists (select 1 from holdfast_deadline)

-- name: drop deadlines
delete from holdfast_deadline where job_id in (select value from json_each(?))

-- name: try
savepoint successes

-- name: undo
rollback to successes

-- name: tried
release successes
