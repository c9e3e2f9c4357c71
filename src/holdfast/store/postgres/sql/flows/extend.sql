-- $1 flow   $2 who adds, $3 its fence   $4 names to add   $5 the graph of what is added
-- What decides about a growth. The flow is locked.
select flow.state,
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
    select coalesce(array_agg(name), '{}') as names, coalesce(array_agg(job_id::text), '{}') as jobs
    from {{schema}}.node where node.flow_id = $1::uuid and node.name = any ($4::text[])
) as known
where flow.id = $1::uuid
