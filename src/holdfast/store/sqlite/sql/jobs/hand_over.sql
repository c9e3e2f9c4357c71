-- name: look
-- A blocked node as a claim reads jobs, with what its worker needs of its flow and the names of all that
-- is paused or cools down. No row if the worker is not trusted, if limits or rules of queues are in use,
-- if the node has a delay or limits, or if another job stands before it.
select
    (select json_group_array(name) from holdfast_queue where paused or cool_until > :now),
    n.inputs, f.state,
    b.job_id, b.queue, b.priority, 0, b.task, b.attempts, b.crashes, b.fence, b.ties,
    j.args, j.policy, j.created_at, :now, j.tags, j.headers, d.at, p.checkpoint
from holdfast_blocked as b
cross join holdfast_node as n on n.job_id = b.job_id
cross join holdfast_flow as f on f.id = n.flow_id
cross join holdfast_job as j on j.id = b.job_id
left join holdfast_deadline as d on d.job_id = b.job_id
left join holdfast_progress as p on p.job_id = b.job_id
where b.job_id = :job_id
    and coalesce(n.delay, 0) = 0
    and not b.ties & 2
    and exists (select 1 from holdfast_worker where id = :worker and expires_at > :now)
    and not exists (select 1 from holdfast_line)
    and not exists (
        select 1 from holdfast_queue where instr(settings, '"max_running"') or instr(settings, '"aging"')
    )
    and not exists (
        select 1 from holdfast_ready where line = 0 and queue = b.queue and priority <= b.priority
    )

-- name: lease
insert into holdfast_lease (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    ready_at, worker_id, claimed_at, timeout_at, ahead
)
select
    job_id, queue, priority, ?, task, attempts, crashes, fence + 1, ties,
    ?, ?, ?, ?, 0
from holdfast_blocked
where job_id = ?
