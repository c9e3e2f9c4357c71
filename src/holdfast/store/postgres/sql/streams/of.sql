-- $1 ids
select job_id::text, stream, section, max(keep), sum(number)::bigint, sum(octet_length(data))::bigint,
    max(at), bool_or(closes)
from (
    select * from {{schema}}.frames where job_id = any ($1::uuid[])
    union all
    select * from {{schema}}.live_frames where job_id = any ($1::uuid[])
) as frames
group by job_id, stream, section
order by job_id, stream, section
