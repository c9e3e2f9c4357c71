-- name: drop ended
delete from holdfast_deadline
where job_id in (
    select d.job_id
    from holdfast_deadline as d
    left join holdfast_outcome as o on o.job_id = d.job_id
    left join holdfast_job as j on j.id = d.job_id
    where d.at <= ?1 and (o.job_id is not null or j.id is null)
    limit ?2
)

-- name: find
select job_id from holdfast_deadline where at <= ?1 and job_id > ?2 order by job_id limit ?3

-- name: next
select at from holdfast_deadline order by at limit 1
