-- name: nodes
select n.job_id, n.flow_id, n.name, n.is_sink, n.is_bad, f.state
from holdfast_node as n
join holdfast_flow as f on f.id = n.flow_id
where n.job_id in (select value from json_each(?))

-- name: left over
-- ended nodes of these flows with edges that nobody has decided
select distinct o.job_id, o.state
from holdfast_node as n
cross join holdfast_edge as e on e.upstream = n.job_id
cross join holdfast_outcome as o on o.job_id = n.job_id
where n.flow_id in (select value from json_each(?))

-- name: take edges
delete from holdfast_edge
where upstream in (select value from json_each(?))
returning upstream, downstream, n, wants

-- name: edges of successes
-- The gates that wait for nodes that succeeded, with their counts after that. 1 is the bit of a success.
select
    g.job_id, g.n, g.flow_id, g.need, g.total, g.won + sum(e.wants & 1),
    g.lost + sum(1 - (e.wants & 1)), g.is_bad, g.losers
from json_each(?) as ended
cross join holdfast_edge as e on e.upstream = ended.value
cross join holdfast_gate as g on g.job_id = e.downstream and g.n = e.n
group by e.downstream, e.n

-- name: set counts
update holdfast_gate set won = ?, lost = ? where job_id = ? and n = ?

-- name: lost to successes
select e.downstream, e.n, min(n.name)
from json_each(?) as ended
cross join holdfast_edge as e on e.upstream = ended.value and e.wants & 1 = 0
cross join holdfast_node as n on n.job_id = e.upstream
group by e.downstream, e.n

-- name: succeeded
-- Take nodes that succeeded from the live nodes of their flows.
update holdfast_flow
set open = open - ended.nodes
from (
    select n.flow_id, count(*) as nodes
    from json_each(?) as ended
    cross join holdfast_node as n on n.job_id = ended.value
    group by n.flow_id
) as ended
where holdfast_flow.id = ended.flow_id
returning id, state, open, failed, cancel_asked, keep

-- name: drop taken edges
delete from holdfast_edge where upstream in (select value from json_each(?))

-- name: count
update holdfast_gate
set won = won + :won, lost = lost + :lost, is_bad = max(is_bad, :is_bad)
where job_id = :job_id and n = :n

-- name: judge
select
    g.job_id, g.n, g.flow_id, g.won >= g.need, g.lost > g.total - g.need, g.is_bad, g.losers,
    g.won + g.lost < g.total
from holdfast_gate as g
join holdfast_flow as f on f.id = g.flow_id
where g.job_id in (select value from json_each(?)) and f.state = 'running'
    and (g.won >= g.need or g.lost > g.total - g.need)

-- name: judge flow
select
    g.job_id, g.n, g.flow_id, g.won >= g.need, g.lost > g.total - g.need, g.is_bad, g.losers,
    g.won + g.lost < g.total
from holdfast_gate as g
join holdfast_flow as f on f.id = g.flow_id
where g.flow_id in (select value from json_each(?)) and f.state = 'running'
    and (g.won >= g.need or g.lost > g.total - g.need)

-- name: with several gates
select job_id from holdfast_gate
where job_id in (select value from json_each(?))
group by job_id having count(*) > 1

-- name: drop gate
delete from holdfast_gate where job_id = ? and n = ?

-- name: drop gate edges
delete from holdfast_edge where downstream = ? and n = ?

-- name: drop gates
delete from holdfast_gate where job_id in (select value from json_each(?))

-- name: drop edges
delete from holdfast_edge where downstream in (select value from json_each(?))

-- name: open gates
select distinct job_id from holdfast_gate where job_id in (select value from json_each(?))

-- name: line up
-- Blocked nodes that wait for nothing go to the ends of their lines, in the order given.
insert into holdfast_ready (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    ready_at
)
select
    b.job_id, b.queue, b.priority, :first + wanted.key, b.task, b.attempts, b.crashes, b.fence,
    b.ties, :now
from json_each(:ids) as wanted
cross join holdfast_blocked as b on b.job_id = wanted.value
cross join holdfast_node as n on n.job_id = b.job_id
where coalesce(n.delay, 0) = 0
returning job_id, queue, task

-- name: waiting
select
    b.job_id, b.queue, b.priority, b.seq, b.task, b.attempts, b.crashes, b.fence, b.ties,
    n.delay, (select d.at from holdfast_deadline as d where d.job_id = b.job_id)
from json_each(?) as wanted
cross join holdfast_blocked as b on b.job_id = wanted.value
cross join holdfast_node as n on n.job_id = b.job_id

-- name: mark bad
update holdfast_node set is_bad = 1 where job_id = ?

-- name: errand
insert into holdfast_errand (flow_id, kind, job_id, what, at) values (?, ?, ?, ?, ?)

-- name: ended
update holdfast_flow
set open = open - :ended, failed = failed + :failed
where id = :id
returning open, failed, cancel_asked, keep

-- name: has failure
select exists (
    select 1 from holdfast_node as n
    cross join holdfast_outcome as o on o.job_id = n.job_id
    where n.flow_id = ? and o.state in ('failed', 'expired')
)

-- name: end
update holdfast_flow
set state = :state, finished_at = :now, expires_at = :expires_at
where id = :id and finished_at is null
returning parent

-- name: live
select id from holdfast_flow where id in (select value from json_each(?)) and finished_at is null
