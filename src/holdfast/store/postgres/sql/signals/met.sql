-- $1 ids of running jobs whose waits have just been recorded
select distinct lease.job_id::text
from {{schema}}.lease
join {{schema}}.step as wait on wait.job_id = lease.job_id and wait.fence = lease.fence
join {{schema}}.signal on signal.job_id = wait.job_id and signal.name = wait.awaits
where lease.job_id = any ($1::uuid[]) and signal.taken_by is null
