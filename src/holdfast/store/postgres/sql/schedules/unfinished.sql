-- $1 schedule   $2 scopes, each once. One probe a scope, and one per place for what it started.
-- uses: live_columns
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
