-- $1 schedule   $2 limit   $3 after this plan time (null: from the first)   $4 and this scope
select schedule, scope, at, decision, reason, recorded_at, job_id, null as state,
    null::int as attempts, null::timestamptz as claimed_at, null::timestamptz as finished_at,
    null as result, null as error
from {{schema}}.ledger
where schedule = $1::text and decision in ('failed', 'waiting')
and (at, scope) > (coalesce($3::timestamptz, '-infinity'), $4::text)
order by at, scope
limit $2::int
