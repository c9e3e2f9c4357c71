-- name: all
select schedule, scope, at, decision, reason, recorded_at, job_id
from holdfast_ledger
where schedule = :name and at < :before
order by at desc, scope
limit :limit

-- name: of a scope
select schedule, scope, at, decision, reason, recorded_at, job_id
from holdfast_ledger
where schedule = :name and scope = :scope and at < :before
order by at desc
limit :limit

-- name: jobs
select
    p.job_id, p.state, p.attempts, p.claimed_at, p.finished_at, p.result,
    (
        select e.kind || ': ' || e.message
        from holdfast_happening as e
        where e.job_id = p.job_id and e.kind is not null
        order by e.n desc
        limit 1
    )
from holdfast_place as p
where p.job_id in (select value from json_each(?))
