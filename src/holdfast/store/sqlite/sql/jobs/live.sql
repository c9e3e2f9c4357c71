with p as materialized (
    select *
    from holdfast_place
    where not ended and job_id in (select value from json_each(?))
)
select
    p.job_id, p.state, p.queue, p.task, j.policy, p.attempts, p.crashes, p.fence,
    p.worker_id, p.cancel_requested_at is not null, p.ahead, p.claimed_at, p.ties
from p
cross join holdfast_job as j on j.id = p.job_id
