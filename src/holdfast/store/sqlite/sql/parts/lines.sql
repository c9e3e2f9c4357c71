-- name: next priority
select min(priority) from holdfast_line where queue = ? and parked_at is null and priority > ?

-- name: open lines
-- How many lines share what is wanted, up to a number that makes no difference, and the least turn.
select count(*), min(turn)
from (
    select turn from holdfast_line
    where queue = ? and priority = ? and parked_at is null and task in (select value from json_each(?))
        and not exists (
            select 1 from json_each(labels) as needed
            where needed.value not in (select value from json_each(?))
        )
        and not exists (
            select 1 from json_each(?) as asked
            where asked.value not in (select value from json_each(labels))
        )
    order by turn
    limit ?
)

-- name: first jobs
-- The first jobs of the lines whose turn it is; a line without a job has one row without any.
select
    l.id, l.buckets, l.costly, l.turn, l.weight, l.fair, iif(l.costly, json_extract(j.passes, '$[1]'), null),
    r.job_id, r.queue, r.priority, r.seq, r.task, r.attempts, r.crashes, r.fence, r.ties,
    j.args, j.policy, j.created_at, r.ready_at, j.tags, j.headers, d.at, p.checkpoint
from holdfast_line as l
left join holdfast_ready as r
    on r.line = l.id and r.queue = l.queue and r.priority = l.priority
        and r.seq <= coalesce(
            (
                select x.seq from holdfast_ready as x
                where x.line = l.id and x.queue = l.queue and x.priority = l.priority
                order by x.seq
                limit 1 offset :others
            ),
            9223372036854775807
        )
left join holdfast_job as j on j.id = r.job_id
left join holdfast_deadline as d on d.job_id = r.job_id
left join holdfast_progress as p on p.job_id = r.job_id
where l.queue = :queue and l.priority = :priority and l.parked_at is null and l.turn <= :until
    and l.task in (select value from json_each(:tasks))
    and not exists (
        select 1 from json_each(l.labels) as needed
        where needed.value not in (select value from json_each(:labels))
    )
    and not exists (
        select 1 from json_each(:only) as asked
        where asked.value not in (select value from json_each(l.labels))
    )
order by l.turn, l.id, r.seq
limit :most

-- name: head
-- The line whose turn it is, and since when its first job waits.
select l.id, r.ready_at
from holdfast_line as l
cross join holdfast_ready as r on r.line = l.id and r.queue = l.queue and r.priority = l.priority
where l.queue = :queue and l.priority = :priority and l.parked_at is null
    and l.task in (select value from json_each(:tasks))
    and not exists (
        select 1 from json_each(l.labels) as needed
        where needed.value not in (select value from json_each(:labels))
    )
    and not exists (
        select 1 from json_each(:only) as asked
        where asked.value not in (select value from json_each(l.labels))
    )
order by l.turn, l.id, r.seq
limit 1

-- name: pick
-- More of one line, which has damaged jobs at its head.
select
    json_extract(j.passes, '$[1]'),
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
-- Jobs that stand next to each other in their line.
insert into holdfast_lease (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    ready_at, worker_id, claimed_at, timeout_at, ahead, buckets, costs
)
select
    job_id, queue, priority, seq, task, attempts, crashes, fence + 1, ties,
    ready_at, ?, ?, ?, ?, ?, ?
from holdfast_ready
where line = ? and queue = ? and priority = ? and seq between ? and ?

-- name: leave
delete from holdfast_ready where line = ? and queue = ? and priority = ? and seq between ? and ?

-- name: served
-- A line that waited has earned nothing by it.
update holdfast_line as l
set turn = ? + max(
    turn, coalesce((select t.turn from holdfast_turn as t where t.queue = l.queue and t.priority = l.priority), 0)
)
where id = ?

-- name: served kin
update holdfast_line set turn = turn + ? where fair = ? and queue = ? and priority = ? and id <> ?

-- name: close
delete from holdfast_line where id = ?

-- name: turn
insert into holdfast_turn (queue, priority, turn) values (?, ?, ?)
on conflict do update set turn = max(turn, excluded.turn)
