-- name: over
select g.schedule, g.scope, g.at, g.decision = 'fired'
from holdfast_ledger as g
where g.keep_until <= ?1
    and g.decision not in ('failed', 'waiting')
    and (
        g.job_id is null
        or not exists (
            select 1 from holdfast_place as p where p.job_id = g.job_id and not p.ended
        )
    )
order by g.keep_until
limit ?2

-- name: forget
update holdfast_schedule
set
    pruned_from = min(coalesce(pruned_from, ?2), ?2),
    pruned_until = max(coalesce(pruned_until, ?2), ?2)
where name = ?1

-- name: ledger
delete from holdfast_ledger where schedule = ? and scope = ? and at = ?

-- name: started
delete from holdfast_started where schedule = ? and scope = ? and at = ?
