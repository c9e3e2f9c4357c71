-- $1 ids
-- Locks jobs where they are, so that they stay there until the end of the transaction. A job that another
-- transaction moves meanwhile has a body and no place here: whoever asks for it has to ask again.
with asked as materialized (
    select distinct id from unnest($1::uuid[]) as given (id)
),
in_ready as materialized (
    select job_id, 'ready' as state from {{schema}}.ready
    where job_id = any (array(select id from asked)) order by job_id for no key update
),
in_lease as materialized (
    select job_id, 'running' as state from {{schema}}.lease
    where job_id = any (array(select id from asked)) order by job_id for no key update
),
{{each unlined}}
in_{{place}} as materialized (
    select job_id, '{{place}}' as state from {{schema}}.{{place}}
    where job_id = any (array(select id from asked)) order by job_id for no key update
),
{{end}}
found as materialized (
    select * from in_ready
    union all select * from in_lease
{{each unlined}}
    union all select * from in_{{place}}
{{end}}
    union all select job_id, state from {{schema}}.outcome
    where job_id = any (array(select id from asked))
)
select asked.id::text, found.state
from asked
left join found on found.job_id = asked.id
where found.state is not null
or exists (select from {{schema}}.job where job.id = asked.id)
