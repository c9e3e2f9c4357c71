-- $1 ids   $2 streams   $3 fences   $4 numbers   $5 rows for each
-- For each that is wanted: whether its job is live, and its rows in order; a row of nulls for none.
select wanted.place, found.fence, found.last, found.number, found.data, found.section, found.since,
    found.again, found.whole, found.closes, found.keep = 'live' as live, found.at,
    exists (select from {{schema}}.job where job.id = wanted.job_id)
        and not exists (select from {{schema}}.outcome where outcome.job_id = wanted.job_id) as is_live
from unnest($1::uuid[], $2::text[], $3::bigint[], $4::int[]) with ordinality
    as wanted (job_id, stream, fence, n, place)
left join lateral (
    select * from (
        (select * from {{schema}}.frames
        where frames.job_id = wanted.job_id and frames.stream = wanted.stream
        and (frames.fence, frames.last) > (wanted.fence, wanted.n)
        order by frames.fence, frames.last limit $5::int)
        union all
        (select * from {{schema}}.live_frames as frames
        where frames.job_id = wanted.job_id and frames.stream = wanted.stream
        and (frames.fence, frames.last) > (wanted.fence, wanted.n)
        order by frames.fence, frames.last limit $5::int)
    ) as both_kinds
    order by fence, last limit $5::int
) as found on true
order by wanted.place, found.fence, found.last
