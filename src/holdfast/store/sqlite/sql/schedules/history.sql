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
    p.job_id, p.state, p.attempts, p.claimed_at, p.finished_at, p.result,
    (
        select e.kind || ': ' || e.message
        from holdfast_error as e
        where e.job_id = p.job_id
        order by e.n desc
        limit 1
    )
from holdfast_place as p
where p.job_id in (select value from json_each(?))
