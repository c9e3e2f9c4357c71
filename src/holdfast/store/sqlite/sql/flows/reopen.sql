-- name: may
select 1 from holdfast_flow as f
where f.id = ? and f.epoch = ? and f.state <> 'cancelling'
    and not exists (
        select 1 from holdfast_flow as other
        where other.unique_key = f.unique_key and other.finished_at is null and other.id <> f.id
    )
    and (f.finished_at is not null or not exists (
        select 1 from holdfast_errand as e where e.flow_id = f.id and e.kind in ('losers', 'close')
    ))

-- name: ended
select
    o.job_id, o.queue, o.priority, o.seq, o.task, o.attempts, o.crashes, o.fence, o.ties,
    o.state, n.is_sink, n.is_bad
from json_each(?) as wanted
cross join holdfast_outcome as o on o.job_id = wanted.value
cross join holdfast_node as n on n.job_id = o.job_id and n.flow_id = ?

-- name: undone
select 1
from json_each(?) as wanted
cross join holdfast_outcome as o on o.job_id = wanted.value
where {{parts/is_undone}}
limit 1

-- name: no cancels
delete from holdfast_errand where flow_id = ? and kind in ('losers', 'close')

-- name: drop outcome
delete from holdfast_outcome where job_id in (select value from json_each(?))

-- name: not bad
update holdfast_node set is_bad = 0, is_let_go = 0, is_unsettled = 0
where job_id in (select value from json_each(?))

-- name: drop kept gates
delete from holdfast_skipped_gate
where flow_id = ? and job_id in (select value from json_each(?))

-- name: jobs
select o.job_id, j.unique_key, o.ties, o.queue, o.task, o.state
from json_each(?) as wanted
cross join holdfast_outcome as o on o.job_id = wanted.value
left join holdfast_job as j on j.id = o.job_id

-- name: remove nodes
delete from holdfast_node where job_id in (select value from json_each(?))

-- name: flow
update holdfast_flow
set state = iif(state = 'paused', 'paused', 'running'), open = open + :nodes,
    total = total - :removed, failed = failed - :failed, epoch = epoch + 1, cancel_asked = 0, finished_at = null,
    expires_at = null, reason = iif(state = 'paused', reason, null)
where id = :id
