-- `or fail`: an error rolls the transaction back anyway. Without it SQLite keeps a copy of each page
-- that the statement writes to, to be able to undo the statement alone.

-- name: nodes
select job_id, flow_id, name, is_sink, is_bad
from holdfast_node
where job_id in (select value from json_each(?))

-- name: succeeded
-- Take nodes that succeeded from the live nodes of their flows.
update or fail holdfast_flow
set open = open - ended.nodes
from (
    select n.flow_id, count(*) as nodes
    from json_each(?) as ended
    cross join holdfast_node as n on n.job_id = ended.value
    group by n.flow_id
) as ended
where holdfast_flow.id = ended.flow_id
returning id, state, open, failed, cancel_asked, keep, parent, finished_at

-- name: one succeeded
update holdfast_flow set open = open - 1 where id = ?

-- name: gates behind one success
select
    g.job_id, g.n, g.flow_id, g.need, g.total, g.won + (e.value & 1), g.lost + 1 - (e.value & 1),
    g.is_bad, g.losers, {{parts/has_others}}
from json_each(?) as e
cross join holdfast_gate as g on g.job_id = e.key and g.n = e.value >> 5

-- name: gates behind successes
-- The gates that wait for nodes that succeeded, with their counts after that. 1 is the bit of a success.
select
    g.job_id, g.n, g.flow_id, g.need, g.total, g.won + sum(e.value & 1),
    g.lost + sum(1 - (e.value & 1)), g.is_bad, g.losers, {{parts/has_others}}
from json_each(?) as ended
cross join holdfast_node as n on n.job_id = ended.value
cross join json_each(n.edges) as e
cross join holdfast_gate as g on g.job_id = e.key and g.n = e.value >> 5
group by g.job_id, g.n

-- name: set counts
update holdfast_gate set won = ?, lost = ? where job_id = ? and n = ?

-- name: lost to successes
select e.key, e.value >> 5, min(n.name)
from json_each(?) as ended
cross join holdfast_node as n on n.job_id = ended.value
cross join json_each(n.edges) as e on e.value & 1 = 0
group by e.key, e.value >> 5

-- name: edges
select n.job_id, e.key, e.value >> 5, e.value & 31
from json_each(?) as ended
cross join holdfast_node as n on n.job_id = ended.value
cross join json_each(n.edges) as e

-- name: count
update holdfast_gate
set won = won + :won, lost = lost + :lost, is_bad = max(is_bad, :is_bad)
where job_id = :job_id and n = :n

-- name: judge
select
    g.job_id, g.n, g.flow_id, g.won >= g.need, g.lost > g.total - g.need, g.is_bad, g.losers,
    {{parts/has_others}}
from json_each(?) as wanted
cross join holdfast_gate as g on g.job_id = wanted.value
cross join holdfast_flow as f on f.id = g.flow_id
where f.state = 'running' and (g.won >= g.need or g.lost > g.total - g.need)

-- name: judge flow
select
    g.job_id, g.n, g.flow_id, g.won >= g.need, g.lost > g.total - g.need, g.is_bad, g.losers,
    {{parts/has_others}}
from json_each(?) as wanted
cross join holdfast_node as n on n.flow_id = wanted.value
cross join holdfast_gate as g on g.job_id = n.job_id
cross join holdfast_flow as f on f.id = n.flow_id
where f.state = 'running' and (g.won >= g.need or g.lost > g.total - g.need)

-- name: drop gates
delete from holdfast_gate where job_id in (select value from json_each(?))

-- name: drop gate
delete from holdfast_gate where job_id = ? and n = ?

-- name: open gates
select distinct job_id from holdfast_gate where job_id in (select value from json_each(?))

-- name: line up
-- Blocked nodes that wait for nothing go to the ends of their lines, in the order given.
insert or fail into holdfast_ready (
    job_id, queue, priority, seq, task, attempts, crashes, fence, ties,
    ready_at
)
select
    b.job_id, b.queue, b.priority, :first + wanted.key, b.task, b.attempts, b.crashes, b.fence,
    b.ties, :now
from json_each(:ids) as wanted
cross join holdfast_blocked as b on b.job_id = wanted.value
cross join holdfast_node as n on n.job_id = b.job_id
where coalesce(n.delay, 0) = 0 and not b.ties & 2 -- nodes with limits stand in lines of their own
returning job_id, queue, task

-- name: waiting
select
    b.job_id, b.queue, b.priority, b.seq, b.task, b.attempts, b.crashes, b.fence, b.ties,
    n.delay, (select d.at from holdfast_deadline as d where d.job_id = b.job_id)
from json_each(?) as wanted
cross join holdfast_blocked as b on b.job_id = wanted.value
cross join holdfast_node as n on n.job_id = b.job_id

-- name: keep gates
insert into holdfast_skipped_gate (flow_id, job_id, n, need)
select flow_id, job_id, n, need from holdfast_gate
where job_id in (select value from json_each(?)) and won < need

-- name: keep gate
insert into holdfast_skipped_gate (flow_id, job_id, n, need) values (?, ?, ?, ?)

-- name: kept gates
select 1 from holdfast_skipped_gate where flow_id = ? limit 1

-- name: late failures
-- The skipped nodes of a flow without live nodes that ended badly after all, each with the first bad end by name.
with recursive edge as materialized (
    select g.job_id, g.n, g.need, n.job_id as upstream, n.name, n.is_bad, n.is_let_go, o.state,
        e.value & case o.state when 'succeeded' then 1 when 'failed' then 2 when 'cancelled' then 4
            when 'expired' then 8 else 16 end <> 0 as wins
    from holdfast_node as n
    cross join json_each(n.edges) as e
    cross join holdfast_skipped_gate as g
        on g.flow_id = n.flow_id and g.job_id = e.key and g.n = e.value >> 5
    cross join holdfast_outcome as o on o.job_id = n.job_id
    where n.flow_id = :flow and exists (
        select 1 from holdfast_node as one
        cross join holdfast_outcome as o on o.job_id = one.job_id
        where one.flow_id = :flow and o.state in ('failed', 'expired', 'cancelled')
    )
),
lost as materialized (
    select e.* from edge as e
    join (
        select job_id, n from edge group by job_id, n having sum(wins) < max(need)
    ) as impossible on impossible.job_id = e.job_id and impossible.n = e.n
    where not e.wins and not e.is_let_go
),
bad (job_id) as (
    select upstream from lost
    where state in ('failed', 'expired', 'cancelled') or (state = 'skipped' and is_bad)
    union
    select lost.job_id from bad join lost on lost.upstream = bad.job_id
)
select lost.job_id, min('''' || lost.name || ''' is ' || lost.state)
from lost join bad on bad.job_id = lost.upstream
group by lost.job_id

-- name: drop kept gates
delete from holdfast_skipped_gate where flow_id = ?

-- name: other reason
update holdfast_outcome set reason = ? where job_id = ?

-- name: failed late
update holdfast_flow set failed = failed + :bad where id = :flow

-- name: mark bad
update holdfast_node set is_bad = 1 where job_id = ?

-- name: left over
-- ended nodes of these flows whose ends nobody has counted
select o.job_id, o.state
from holdfast_node as n
cross join holdfast_outcome as o on o.job_id = n.job_id
where n.flow_id in (select value from json_each(?)) and n.is_unsettled

-- name: settled
update holdfast_node set is_unsettled = 0
where flow_id in (select value from json_each(?)) and is_unsettled

-- name: leave unsettled
update holdfast_node set is_unsettled = 1
where job_id in (select value from json_each(?))

-- name: errand
insert into holdfast_errand (flow_id, kind, job_id, what, at) values (?, ?, ?, ?, ?)

-- name: ended
update holdfast_flow
set open = open - :ended, failed = failed + :failed
where id = :id
returning open, failed, cancel_asked, keep, parent, finished_at

-- name: has failure
select exists (
    select 1 from holdfast_node as n
    cross join holdfast_outcome as o on o.job_id = n.job_id
    where n.flow_id = ? and o.state in ('failed', 'expired')
)

-- name: end
update holdfast_flow set state = ?, finished_at = ?, expires_at = ? where id = ?

-- name: live
select id, parent from holdfast_flow
where parent in (select value from json_each(?)) and finished_at is null

-- name: let go of children
update holdfast_flow
set keep = '{"succeeded":0,"failed":0,"cancelled":0}',
    expires_at = case when finished_at is not null then :now end
where parent in (select value from json_each(:ids)) and keep = '{}'
