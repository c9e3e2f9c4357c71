-- name: may
select 1 from holdfast_flow where id = ? and epoch = ? and finished_at is null

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
            and (o.state in ('failed', 'expired') or (o.state = 'skipped' and n.is_bad))
    )
where id = :id
