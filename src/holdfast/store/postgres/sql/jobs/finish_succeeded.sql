-- $1 now   $2 job ids   $3 fences   $4 results   $5 seconds to keep (null: for ever)
-- $6 how long to wait for a lease that others have locked (null: as the transaction does)
-- uses: succeeded counted
-- let closed: job_id, queue, priority, task, attempts, crashes, fence, ties, claimed_at, worker_id
-- let guard: buckets is null
-- Plain successes, of leases that no limit counts; every other move goes through finish.sql. Answers with the ids that were refused:
-- usually there are none, so that there is nothing to send and to read.
with {{succeeded}},
{{counted}}
select asked_id from ended where job_id is null
