-- $1 ids
select place.job_id, place.state, place.queue, place.task, job.policy, place.attempts,
    place.crashes, place.fence, place.worker_id, place.cancel_requested_at is not null, place.ahead,
    place.claimed_at
from unnest($1::uuid[]) as asked (id)
cross join lateral (
    select * from {{schema}}.place
    where place.job_id = asked.id and place.state in ('ready', 'running', 'scheduled', 'suspended')
    limit 1
) as place
join lateral (select policy from {{schema}}.job where job.id = asked.id limit 1) as job on true
