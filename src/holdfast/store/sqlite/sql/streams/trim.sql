delete from holdfast_frames
where (job_id, stream, fence, last) in (
    select job_id, stream, fence, last from holdfast_frames
    where keep = 'live' and at < :before
    order by at
    limit :limit
)
