select
    j.id,
    case
        when r.job_id is not null then 'ready'
        when l.job_id is not null then 'running'
        when s.job_id is not null then 'scheduled'
        when u.job_id is not null then 'suspended'
        else o.state
    end,
    coalesce(r.fence, l.fence, s.fence, u.fence, o.fence)
from json_each(?) as wanted
cross join holdfast_job as j on j.id = wanted.value
left join holdfast_ready as r on r.job_id = j.id
left join holdfast_lease as l on l.job_id = j.id
left join holdfast_scheduled as s on s.job_id = j.id
left join holdfast_suspended as u on u.job_id = j.id
left join holdfast_outcome as o on o.job_id = j.id
