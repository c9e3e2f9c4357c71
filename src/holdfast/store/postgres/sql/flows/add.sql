-- $1 flows, $2 jobs, $3 names, $4 whether sinks, $5 delays, $6 inputs: of nodes
-- $7 jobs, $8 numbers, $9 flows, $10 needs, $11 totals, $12 losers: of gates
-- $13 upstreams, $14 downstreams, $15 wants: of edges
-- $16 flows, $17 graphs
-- The upstream of an edge is one of the nodes, or there already. A graph comes behind those that its flow has.
-- There is an answer, because some drivers of callers want one.
with edges as materialized (
    select upstream, array_agg(downstream) as behind, array_agg(wants) as wants
    from unnest($13::uuid[], $14::uuid[], $15::bigint[]) as given (upstream, downstream, wants)
    group by upstream
),
nodes as (
    insert into {{schema}}.node (flow_id, job_id, name, is_sink, delay, inputs, behind, wants)
    select given.*, edges.behind, edges.wants
    from unnest($1::uuid[], $2::uuid[], $3::text[], $4::boolean[], $5::float8[], $6::text[])
        as given (flow_id, job_id, name, is_sink, delay, inputs)
    left join edges on edges.upstream = given.job_id
),
upstreams as (
    -- Those that this statement inserts are not there for it. An old edge to the same node whose gate is gone never
    -- counts again, and is dropped: otherwise every retry of the flow would leave some.
    update {{schema}}.node set (behind, wants) = (
        select array_agg(old.behind order by old.place) || edges.behind,
            array_agg(old.wants order by old.place) || edges.wants
        from unnest(node.behind, node.wants) with ordinality as old (behind, wants, place)
        left join (select distinct behind from unnest(edges.behind) as new (behind)) as again
            on again.behind = old.behind
        where again.behind is null or exists (
            select from {{schema}}.gate where gate.job_id = old.behind and gate.n = old.wants / 32
        ) or exists (
            select from {{schema}}.skipped_gate as kept
            where kept.flow_id = node.flow_id and kept.job_id = old.behind and kept.n = old.wants / 32
        )
    )
    from edges
    where node.job_id = any ($13::uuid[]) and node.job_id = edges.upstream
),
gates as (
    insert into {{schema}}.gate (job_id, n, flow_id, need, total, losers)
    select * from unnest($7::uuid[], $8::bigint[], $9::uuid[], $10::int[], $11::int[], $12::text[])
),
graphs as (
    insert into {{schema}}.flow_graph (flow_id, n, graph)
    select given.flow_id, coalesce(last.n, 0) + 1, given.graph
    from unnest($16::uuid[], $17::text[]) as given (flow_id, graph)
    left join lateral (
        select n from {{schema}}.flow_graph
        where flow_graph.flow_id = given.flow_id order by n desc limit 1
    ) as last on true
)
select 1
