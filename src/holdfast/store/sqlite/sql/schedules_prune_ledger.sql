-- name: over
select g.schedule, g.scope, g.at
from ledger as g
where g.keep_until <= ?1
    and (
        g.job_id is null
        or not (
            exists (select 1 from ready as r where r.job_id = g.job_id)
            or exists (select 1 from lease as l where l.job_id = g.job_id)
            or exists (select 1 from scheduled as s where s.job_id = g.job_id)
            or exists (select 1 from suspended as u where u.job_id = g.job_id)
        )
    )
order by g.keep_until
limit ?2

-- name: ledger
delete from ledger where schedule = ? and scope = ? and at = ?

-- name: started
delete from started where schedule = ? and scope = ? and at = ?
