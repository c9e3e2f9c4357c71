-- $1 schedules   $2 scopes   $3 plan times   $4 job ids
-- Answers with the positions of the plans whose row names this very job.
select given.n::int - 1 as place
from unnest($1::text[], $2::text[], $3::timestamptz[], $4::uuid[])
    with ordinality as given (schedule, scope, at, job_id, n)
join {{schema}}.ledger using (schedule, scope, at)
where ledger.job_id = given.job_id
