-- $1 ids   $2 fences   $3 what each has spent in all, by limit
-- In the order of ids, as other ways lock leases.
with mine as materialized (
    select job_id from {{schema}}.lease where job_id = any ($1::uuid[]) order by job_id for update
)
update {{schema}}.lease set spent = coalesce(lease.spent, '{}') || given.spent::jsonb
from unnest($1::uuid[], $2::bigint[], $3::text[]) as given (job_id, fence, spent)
where lease.job_id = given.job_id and lease.fence = given.fence and lease.job_id in (select job_id from mine)
returning lease.job_id::text, lease.fence
