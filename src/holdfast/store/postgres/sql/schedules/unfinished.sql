-- $1 schedule   $2 scopes, each once
-- uses: live_columns
-- One probe for each scope, and one per place for each job that the scope started.
select mine.scope, {{live_columns}}
from unnest($2::text[]) as asked (scope)
cross join lateral (
    select scope, at, job_id from {{schema}}.started
    where schedule = $1::text and started.scope = asked.scope offset 0
) as mine
cross join lateral (
    select * from {{schema}}.place
    where place.job_id = mine.job_id and not place.ended limit 1
) as place
cross join lateral (
    select policy from {{schema}}.job where job.id = mine.job_id limit 1
) as job
order by mine.scope, mine.at
