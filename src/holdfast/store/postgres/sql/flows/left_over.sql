-- $1 flows
-- Ended nodes of these flows whose ends nobody has counted.
select node.job_id::text, outcome.state
from unnest($1::uuid[]) as asked (id)
cross join lateral (
    -- the offset keeps it a look by key for each flow
    select job_id from {{schema}}.node where node.flow_id = asked.id and node.is_unsettled offset 0
) as node
cross join lateral (
    select state from {{schema}}.outcome where outcome.job_id = node.job_id limit 1
) as outcome
