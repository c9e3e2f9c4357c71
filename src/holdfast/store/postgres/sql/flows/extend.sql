-- $1 flow   $2 who adds, $3 its fence   $4 names to add
-- What decides about a growth. The flow is locked.
select flow.state,
    exists (
        select from {{schema}}.lease
        where lease.job_id = $2::uuid and lease.fence = $3::bigint
    ) and exists (
        select from {{schema}}.node where node.job_id = $2::uuid and node.flow_id = $1::uuid
    ) as held,
    array(
        select name from {{schema}}.node where node.flow_id = $1::uuid and node.name = any ($4::text[])
    ) as known
from {{schema}}.flow where flow.id = $1::uuid
