-- $1 ids of jobs
select asked.id::text as job_id, outcome.state
from (select distinct id from unnest($1::uuid[]) as given (id)) as asked
cross join lateral (
    select state from {{schema}}.outcome where outcome.job_id = asked.id limit 1
) as outcome
