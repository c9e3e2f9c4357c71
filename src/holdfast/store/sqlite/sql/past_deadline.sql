-- name: drop ended
delete from deadline
where job_id in (
    select d.job_id
    from deadline as d
    left join outcome as o on o.job_id = d.job_id
    left join job as j on j.id = d.job_id
    where d.at <= ?1 and (o.job_id is not null or j.id is null)
    limit ?2
)

-- name: find
select job_id from deadline where at <= ?1 and job_id > ?2 order by job_id limit ?3

-- name: next
select at from deadline order by at limit 1
