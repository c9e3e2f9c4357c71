select schedule, scope, at, decision, reason, recorded_at, job_id
from holdfast_ledger
where schedule = ?1 and decision in ('failed', 'waiting') and (at, scope) > (?2, ?3)
order by at, scope
limit ?4
