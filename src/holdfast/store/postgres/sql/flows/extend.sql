-- $1 flow   $2 who adds, $3 its fence   $4 names to add   $5 the graph of what is added
-- What decides about a growth. The flow is locked.
select flow.state, flow.epoch,
    exists (
        select from {{schema}}.lease
        where lease.job_id = $2::uuid and lease.fence = $3::bigint
    ) and exists (
        select from {{schema}}.node where node.job_id = $2::uuid and node.flow_id = $1::uuid
    ) as held,
    cardinality($4::text[]) = 0 and exists (
        select from {{schema}}.flow_graph
        where flow_graph.flow_id = $1::uuid and flow_graph.graph = $5::text
    ) as grown_before,
    known.names, known.jobs
from {{schema}}.flow
cross join (
    -- name by name: the flow may have many more nodes than are asked for
    select coalesce(array_agg(mine.name), '{}') as names,
        coalesce(array_agg(mine.job_id::text), '{}') as jobs
    from unnest($4::text[]) as asked (name)
    cross join lateral (
        select name, job_id from {{schema}}.node
        where node.flow_id = $1::uuid and node.name = asked.name collate "C" limit 1
    ) as mine
) as known
where flow.id = $1::uuid
