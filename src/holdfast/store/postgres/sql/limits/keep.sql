-- $1 job ids   $2 their buckets   $3 what they cost there   $4 their weights
-- Before the jobs themselves are inserted: what puts them in their lines reads it.
insert into {{schema}}.limited (job_id, buckets, costs, weight)
select id, buckets, coalesce(costs, ''), weight
from unnest($1::uuid[], $2::text[], $3::text[], $4::int[]) as given (id, buckets, costs, weight)
where not exists (select from {{schema}}.job where job.id = given.id)
on conflict do nothing
returning job_id::text
