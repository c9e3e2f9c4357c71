-- $1 flow   $2 epoch   $3 nodes that should have other gates
-- Drops the gates of those that are blocked, and all edges to them, and counts the live nodes of the flow anew. Answers
-- with a row if the flow is at this epoch. A flow that has ended and has live nodes runs again, unless another
-- flow has its key by now. The flow is locked.
with allowed as materialized (
    select id from {{schema}}.flow
    where id = $1::uuid and epoch = $2::bigint
    and not exists (
        select from {{schema}}.flow as other
        where other.unique_key = flow.unique_key and other.finished_at is null
        and other.id <> flow.id
    )
),
waiting as materialized (
    select asked.id
    from unnest($3::uuid[]) as asked (id)
    cross join allowed
    cross join lateral (
        select from {{schema}}.blocked where blocked.job_id = asked.id limit 1
    ) as waits
    cross join lateral (
        select from {{schema}}.node where node.job_id = asked.id and node.flow_id = $1::uuid limit 1
    ) as own
),
no_gates as (
    delete from {{schema}}.gate where job_id = any (array(select id from waiting))
),
no_edges as (
    update {{schema}}.node set (behind, wants) = (
        select array_agg(edge.behind), array_agg(edge.wants)
        from unnest(node.behind, node.wants) as edge (behind, wants)
        where (edge.behind in (select id from waiting)) is not true
    )
    where flow_id = $1::uuid and behind is not null and exists (select from waiting)
),
recount as materialized (
    select count(*) filter (where outcome.state is null) as open,
        count(*) filter (where node.is_sink and (outcome.state in ('failed', 'expired', 'cancelled')
            or (outcome.state = 'skipped' and node.is_bad))) as failed
    from {{schema}}.node
    left join lateral (
        select state from {{schema}}.outcome where outcome.job_id = node.job_id limit 1
    ) as outcome on true
    where node.flow_id = $1::uuid
),
recounted as (
    update {{schema}}.flow set open = recount.open, failed = recount.failed,
        state = case when finished_at is null or recount.open = 0 then state else 'running' end,
        finished_at = case when recount.open = 0 then finished_at end,
        expires_at = case when recount.open = 0 then expires_at end
    from recount where flow.id = (select id from allowed)
    returning flow.id
)
select array(select id::text from waiting) as waiting from recounted
