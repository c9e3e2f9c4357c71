-- $1 flow   $2 ids of its jobs
-- Their open gates, each with the edges that are not decided yet: those of nodes that are live, or whose end is not
-- counted yet. Edges lie with their upstreams, so the nodes of the flow are looked through for them.
with gates as materialized (
    select gate.* from {{schema}}.gate where gate.job_id = any ($2::uuid[])
),
edges as materialized (
    select edge.downstream, edge.wants >> 5 as n, edge.upstream, edge.wants & 31 as wants, edge.is_unsettled
    from (
        select job_id as upstream, is_unsettled, unnest(behind) as downstream, unnest(wants) as wants
        from {{schema}}.node where node.flow_id = $1::uuid
    ) as edge
    where ((edge.downstream, edge.wants >> 5) in (select job_id, n from gates)) is true
),
undecided as materialized (
    select downstream, n, array_agg(upstream::text order by upstream) as upstreams,
        array_agg(wants order by upstream) as wants
    from edges
    left join lateral (
        -- the limit keeps it a look for each edge, never a hash of all outcomes
        select true as ended from {{schema}}.outcome where outcome.job_id = edges.upstream limit 1
    ) as over on true
    where edges.is_unsettled or over.ended is null
    group by downstream, n
)
select gates.job_id::text, gates.n, gates.need, gates.total, gates.won, gates.lost, gates.losers,
    coalesce(undecided.upstreams, '{}') as upstreams, coalesce(undecided.wants, '{}') as wants
from gates left join undecided on undecided.downstream = gates.job_id and undecided.n = gates.n
order by gates.job_id, gates.n
