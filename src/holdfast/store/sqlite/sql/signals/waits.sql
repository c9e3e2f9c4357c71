select p.job_id, p.task, p.queue, w.awaits, min(w.at), min(w.until)
from holdfast_step as w
cross join holdfast_suspended as p on p.job_id = w.job_id and p.fence = w.fence
where w.awaits is not null and (w.job_id, w.awaits) > (:job, :signal)
group by w.job_id, w.awaits
order by w.job_id, w.awaits
limit :limit
