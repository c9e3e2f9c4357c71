-- name: opening
select name from holdfast_bucket where has_waiting and opens_at <= ?

-- name: unpark
update holdfast_line set parked_at = null
where id in (select id from holdfast_line where parked_at = ? order by priority, turn limit ?)

-- name: is waited for
select exists (select 1 from holdfast_line where parked_at = ?)

-- name: save
insert into holdfast_bucket (name, in_use, has_waiting, opens_at, touched_at)
values (:name, :in_use, :has_waiting, :opens_at, :now)
on conflict (name) do update set
    in_use = excluded.in_use, has_waiting = excluded.has_waiting, opens_at = excluded.opens_at,
    touched_at = excluded.touched_at

-- name: next priority
select min(priority) from holdfast_line where queue = ? and parked_at is null and priority > ?

-- name: open lines
select id, buckets from holdfast_line
where queue = ? and priority = ? and parked_at is null and task in (select value from json_each(?))
order by turn
limit ?

-- name: pick
select
    r.job_id, r.queue, r.priority, r.seq, r.task, r.attempts, r.crashes, r.fence, r.ties,
    j.args, j.policy, j.created_at, r.ready_at, j.tags, j.headers, d.at, p.checkpoint
from holdfast_ready as r
cross join holdfast_job as j on j.id = r.job_id
left join holdfast_deadline as d on d.job_id = r.job_id
left join holdfast_progress as p on p.job_id = r.job_id
where r.line = ? and r.queue = ? and r.priority = ?
order by r.seq
limit ?

-- name: lease
insert into holdfast_lease (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    ready_at, worker_id, claimed_at, timeout_at, ahead, buckets
)
select
    job_id, queue, priority, seq, task, attempts, crashes, fence + 1, ties,
    ready_at, ?, ?, ?, ?, ?
from holdfast_ready
where line = ? and queue = ? and priority = ? and seq in (select value from json_each(?))

-- name: leave
delete from holdfast_ready
where line = ? and queue = ? and priority = ? and seq in (select value from json_each(?))

-- name: served
update holdfast_line set turn = ? where id = ?

-- name: park
update holdfast_line set parked_at = ? where id = ?

-- name: close
delete from holdfast_line where id = ?

-- name: parked queues
select queue from holdfast_line where parked_at = ? order by priority, turn limit ?
