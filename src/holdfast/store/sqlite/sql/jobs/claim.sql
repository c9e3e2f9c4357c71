-- name: gate
select
    exists (select 1 from holdfast_worker where id = ? and expires_at > ?),
    (select n from holdfast_counter where topic = 'return' and name = ''),
    (select json_group_array(name) from holdfast_queue where paused or cool_until > ?),
    exists (select 1 from holdfast_line),
    exists (
        select 1 from holdfast_queue where instr(settings, '"max_running"') or instr(settings, '"aging"')
    )

-- name: next priority
select min(priority) from holdfast_ready where line = 0 and queue = ? and priority > ?

-- name: pick
select
    r.job_id, r.queue, r.priority, r.seq, r.task, r.attempts, r.crashes, r.fence, r.ties,
    j.args, j.policy, j.created_at, r.ready_at, j.tags, j.headers, d.at, p.checkpoint
from holdfast_ready as r
cross join holdfast_job as j on j.id = r.job_id
left join holdfast_deadline as d on d.job_id = r.job_id
left join holdfast_progress as p on p.job_id = r.job_id
where r.line = 0
    and r.queue = ?
    and r.priority = ?
    and r.seq >= ?
    and r.task in (select value from json_each(?))
order by r.seq
limit ?

-- name: last
select max(seq) from holdfast_ready where line = 0 and queue = ? and priority = ?

-- name: lease
insert into holdfast_lease (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    ready_at, worker_id, claimed_at, timeout_at, ahead
)
select
    job_id, queue, priority, seq, task, attempts, crashes, fence + 1, ties,
    ready_at, ?, ?, ?, seq >= ?
from holdfast_ready
where line = 0 and queue = ? and priority = ? and {{these}}

-- name: leave
delete from holdfast_ready
where line = 0 and queue = ? and priority = ? and {{these}}

-- name: one
seq = ?

-- name: several
seq between ? and ?
    and task in (select value from json_each(?)) and seq not in (select value from json_each(?))

-- name: ruled queues
select name, settings from holdfast_queue
where instr(settings, '"max_running"') or instr(settings, '"aging"')

-- name: count in total
-- Plain jobs of a queue with a total, which have just been claimed.
update holdfast_lease set buckets = ?, ties = ties | 2 where job_id in (select value from json_each(?))

-- name: head
select ready_at from holdfast_ready
where line = 0 and queue = ? and priority = ? and seq >= ? and task in (select value from json_each(?))
order by seq
limit 1

-- name: as old
-- How many of the first jobs have waited since this moment, or longer.
select count(*)
from (
    select 1 from holdfast_ready
    where line = ? and queue = ? and priority = ? and seq >= ? and ready_at <= ?
    limit ?
)
