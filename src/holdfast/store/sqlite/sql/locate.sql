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
cross join job as j on j.id = wanted.value
left join ready as r on r.job_id = j.id
left join lease as l on l.job_id = j.id
left join scheduled as s on s.job_id = j.id
left join suspended as u on u.job_id = j.id
left join outcome as o on o.job_id = j.id
