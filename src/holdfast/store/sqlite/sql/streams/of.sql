select
    f.job_id, f.stream, f.section, max(f.keep), sum(f.number), sum(length(cast(f.data as blob))),
    max(f.at), max(f.closes)
from json_each(?) as wanted
cross join holdfast_frames as f on f.job_id = wanted.value
group by f.job_id, f.stream, f.section
order by f.job_id, f.stream, f.section
