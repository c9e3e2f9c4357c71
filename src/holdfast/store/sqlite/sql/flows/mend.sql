-- name: may
select 1 from holdfast_flow as f
where f.id = ? and f.epoch = ?
    and not exists (
        select 1 from holdfast_flow as other
        where other.unique_key = f.unique_key and other.finished_at is null and other.id <> f.id
    )

-- name: revive
update holdfast_flow set state = 'running', finished_at = null, expires_at = null
where id = :id and finished_at is not null
    and exists (
        select 1 from holdfast_node as n
        where n.flow_id = :id
            and not exists (select 1 from holdfast_outcome as o where o.job_id = n.job_id)
    )

-- name: recount
update holdfast_flow
set open = (
        select count(*) from holdfast_node as n
        where n.flow_id = :id
            and not exists (select 1 from holdfast_outcome as o where o.job_id = n.job_id)
    ),
    failed = (
        select count(*) from holdfast_node as n
        join holdfast_outcome as o on o.job_id = n.job_id
        where n.flow_id = :id and n.is_sink
            and (o.state in ('failed', 'expired', 'cancelled') or (o.state = 'skipped' and n.is_bad))
    )
where id = :id
