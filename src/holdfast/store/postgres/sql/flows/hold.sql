-- $1 jobs   $2 their fences   $3 the tie of a parent
-- Ties running jobs to the flows that they start. Answers with those that run with these fences.
update {{schema}}.lease set ties = lease.ties | $3::int
from unnest($1::uuid[], $2::bigint[]) as given (job_id, fence)
where lease.job_id = given.job_id and lease.fence = given.fence
returning lease.job_id::text
