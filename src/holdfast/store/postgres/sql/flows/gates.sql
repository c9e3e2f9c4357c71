-- $1 ids of jobs
-- Their open gates, each with the edges that are not decided yet.
select gate.job_id::text, gate.n, gate.need, gate.total, gate.won, gate.lost, gate.losers,
    array(
        select edge.upstream::text from {{schema}}.edge
        where edge.downstream = gate.job_id and edge.n = gate.n order by edge.upstream
    ) as upstreams,
    array(
        select edge.wants from {{schema}}.edge
        where edge.downstream = gate.job_id and edge.n = gate.n order by edge.upstream
    ) as wants
from unnest($1::uuid[]) as asked (id)
cross join lateral (
    select * from {{schema}}.gate where gate.job_id = asked.id order by gate.n
) as gate
