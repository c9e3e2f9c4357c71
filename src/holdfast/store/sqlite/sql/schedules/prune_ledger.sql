-- name: over
select g.schedule, g.scope, g.at, g.decision = 'fired'
from holdfast_ledger as g
where g.keep_until <= ?
    and g.decision not in ('failed', 'waiting')
    and (
        g.job_id is null
        or not exists (
            select 1 from holdfast_place as p where p.job_id = g.job_id and not p.ended
        )
    )
order by g.keep_until
limit ?

-- name: forget
update holdfast_schedule
set
    pruned_from = min(coalesce(pruned_from, :at), :at),
    pruned_until = max(coalesce(pruned_until, :at), :at)
where name = :name

-- name: ledger
delete from holdfast_ledger where schedule = ? and scope = ? and at = ?

-- name: started
delete from holdfast_started where schedule = ? and scope = ? and at = ?
