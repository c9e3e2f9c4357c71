-- $1 ids   $2 streams   $3 sections, null for any   $4 fences   $5 numbers
-- Removes frames before these positions, of a section or of a whole stream.
with given as (
    select * from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::int[])
        as given (job_id, stream, section, fence, n)
),
gone as (
    delete from {{schema}}.frames as old using given
    where old.job_id = given.job_id and old.stream = given.stream
    and (old.fence, old.last) < (given.fence, given.n)
    and (given.section is null or old.section = given.section)
)
delete from {{schema}}.live_frames as old using given
where old.job_id = given.job_id and old.stream = given.stream
and (old.fence, old.last) < (given.fence, given.n)
and (given.section is null or old.section = given.section)
