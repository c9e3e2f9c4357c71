-- $1 ids of jobs
select asked.id::text as job_id, node.flow_id::text, flow.name as flow_name, flow.state, node.name,
    node.inputs
from unnest($1::uuid[]) as asked (id)
cross join lateral (
    select flow_id, name, inputs from {{schema}}.node where node.job_id = asked.id limit 1
) as node
cross join lateral (
    select name, state from {{schema}}.flow where flow.id = node.flow_id limit 1
) as flow
