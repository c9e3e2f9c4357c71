-- $1 job ids   $2 their buckets
-- Before the jobs themselves are inserted: what puts them in their lines reads it.
insert into {{schema}}.limited (job_id, buckets)
select id, buckets from unnest($1::uuid[], $2::text[]) as given (id, buckets)
where not exists (select from {{schema}}.job where job.id = given.id)
on conflict do nothing
returning job_id::text
