-- $1 now   $2 seconds   $3 limit
with old as (
    select job_id, stream, fence, last from {{schema}}.live_frames
    where at < {{now}} - $2::float8 * interval '1 second'
    order by at limit $3::int
    for update skip locked
)
delete from {{schema}}.live_frames using old
where live_frames.job_id = old.job_id and live_frames.stream = old.stream
and live_frames.fence = old.fence and live_frames.last = old.last
returning 1
