select schedule, scope, at, decision, reason, recorded_at, job_id
from holdfast_ledger
where schedule = ? and decision in ('failed', 'waiting') and (at, scope) > (?, ?)
order by at, scope
limit ?
