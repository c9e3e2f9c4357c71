-- name: all
select schedule, scope, at, decision, reason, recorded_at, job_id
from holdfast_ledger
where schedule = ?1 and at < ?2
order by at desc, scope
limit ?3

-- name: of a scope
select schedule, scope, at, decision, reason, recorded_at, job_id
from holdfast_ledger
where schedule = ?1 and scope = ?4 and at < ?2
order by at desc
limit ?3

-- name: jobs
select
    wanted.value,
    case
        when r.job_id is not null then 'ready'
        when l.job_id is not null then 'running'
        when s.job_id is not null then 'scheduled'
        when u.job_id is not null then 'suspended'
        else o.state
    end,
    coalesce(r.attempts, l.attempts, s.attempts, u.attempts, o.attempts),
    coalesce(l.claimed_at, o.claimed_at),
    o.finished_at,
    o.result,
    (
        select e.kind || ': ' || e.message
        from holdfast_error as e
        where e.job_id = wanted.value
        order by e.n desc
        limit 1
    )
from json_each(?) as wanted
left join holdfast_ready as r on r.job_id = wanted.value
left join holdfast_lease as l on l.job_id = wanted.value
left join holdfast_scheduled as s on s.job_id = wanted.value
left join holdfast_suspended as u on u.job_id = wanted.value
left join holdfast_outcome as o on o.job_id = wanted.value
where coalesce(r.job_id, l.job_id, s.job_id, u.job_id, o.job_id) is not null
