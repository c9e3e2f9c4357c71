-- $1 now   $2 channel   $3 ids
-- uses: promoted counted
-- let of_scheduled: job_id = any ($3::uuid[]) and due_at <= {{now}}
-- let of_suspended: job_id = any ($3::uuid[]) and wake_at <= {{now}}
-- As promote_due.sql, for named jobs: the promoter looks for the one job that breaks its batch.
with {{promoted}}
select count(*)::int as moved, pg_notify($2::text, 'ready:') from moved
