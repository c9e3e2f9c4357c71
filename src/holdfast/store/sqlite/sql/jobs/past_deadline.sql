-- name: drop ended
delete from holdfast_deadline
where job_id in (
    select d.job_id
    from holdfast_deadline as d
    left join holdfast_outcome as o on o.job_id = d.job_id
    left join holdfast_job as j on j.id = d.job_id
    where d.at <= ? and (o.job_id is not null or j.id is null)
    limit ?
)

-- name: find
select d.job_id
from holdfast_deadline as d
left join holdfast_lease as l on l.job_id = d.job_id
left join holdfast_worker as w on w.id = l.worker_id
where d.at <= ? and d.job_id > ? and (w.id is null or d.at < w.written_until)
order by d.job_id
limit ?
