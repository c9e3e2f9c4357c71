-- $1 limit   $2 job and $3 signal of the last one of the page before
select suspended.job_id::text, min(suspended.task), min(suspended.queue), wait.awaits, min(wait.at),
    min(wait.until)
from {{schema}}.step as wait
join {{schema}}.suspended on suspended.job_id = wait.job_id and suspended.fence = wait.fence
where wait.awaits is not null and (wait.job_id, wait.awaits) > ($2::uuid, $3::text)
group by suspended.job_id, wait.job_id, wait.awaits
order by wait.job_id, wait.awaits
limit $1::int
