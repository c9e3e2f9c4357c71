-- $1 flows, $2 jobs, $3 names, $4 whether sinks, $5 delays, $6 inputs: of nodes
-- $7 jobs, $8 numbers, $9 flows, $10 needs, $11 totals, $12 losers: of gates
-- $13 upstreams, $14 downstreams, $15 numbers of gates, $16 wants: of edges
-- $17 flows, $18 graphs
-- A graph comes behind those that its flow has. There is an answer, because some drivers of callers
-- want one.
with nodes as (
    insert into {{schema}}.node (flow_id, job_id, name, is_sink, delay, inputs)
    select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::boolean[], $5::float8[], $6::text[])
),
gates as (
    insert into {{schema}}.gate (job_id, n, flow_id, need, total, losers)
    select * from unnest($7::uuid[], $8::int[], $9::uuid[], $10::int[], $11::int[], $12::text[])
),
edges as (
    insert into {{schema}}.edge (upstream, downstream, n, wants)
    select * from unnest($13::uuid[], $14::uuid[], $15::int[], $16::smallint[])
),
graphs as (
    insert into {{schema}}.flow_graph (flow_id, n, graph)
    select given.flow_id, coalesce(last.n, 0) + 1, given.graph
    from unnest($17::uuid[], $18::text[]) as given (flow_id, graph)
    left join lateral (
        select n from {{schema}}.flow_graph
        where flow_graph.flow_id = given.flow_id order by n desc limit 1
    ) as last on true
)
select 1
