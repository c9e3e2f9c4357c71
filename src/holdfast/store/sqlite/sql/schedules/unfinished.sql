with started as materialized (
    select s.scope, s.at, s.job_id
    from json_each(:scopes) as wanted
    cross join holdfast_started as s on s.schedule = :name and s.scope = wanted.value
),
p as materialized (
    select * from holdfast_place where not ended and job_id in (select job_id from started)
)
select
    s.scope,
    p.job_id, p.state, p.queue, p.task, j.policy, p.attempts, p.crashes, p.fence,
    p.worker_id, p.cancel_requested_at is not null, p.ahead, p.claimed_at, p.ties
from started as s
cross join p on p.job_id = s.job_id
cross join holdfast_job as j on j.id = s.job_id
order by s.scope, s.at
