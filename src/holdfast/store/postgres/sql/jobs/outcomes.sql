-- $1 ids
select ended.job_id, ended.state, ended.result, ended.reason, ended.fingerprint
from unnest($1::uuid[]) as asked (id)
cross join lateral (
    select job_id, state, result, reason, fingerprint from {{schema}}.outcome
    where outcome.job_id = asked.id limit 1
) as ended
