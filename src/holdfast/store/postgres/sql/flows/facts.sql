-- $1 ids of nodes, with commas between them
-- What a worker needs to know of nodes before they begin, without those that may simply begin: they take no
-- results, and their flow is not being cancelled.
select asked.id::text as job_id, node.inputs, flow.closing
from unnest(string_to_array($1::text, ',')::uuid[]) as asked (id)
cross join lateral (
    select flow_id, inputs from {{schema}}.node where node.job_id = asked.id limit 1
) as node
cross join lateral (
    select state = 'cancelling' as closing from {{schema}}.flow where flow.id = node.flow_id limit 1
) as flow
where node.inputs is not null or flow.closing
