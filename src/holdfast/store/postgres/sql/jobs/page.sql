-- $1 before this id   $2 limit   $3 ids   $4 states   $5 queues   $6 tasks   $7 tag
-- $8 created after   $9 created before   $10 text in an error   (null: any)
-- $11 whether any ended state is wanted
-- The places are merged in order of the key, so a page reads as many rows as it passes over. The
-- filters hide in "nullif … is not null", which the planner takes to pass nearly every row: were
-- it to guess that they leave one, it would rather read and sort all history than walk the index.
select place.job_id
from {{schema}}.place
where place.job_id < coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
and ($3::uuid[] is null or place.job_id = any ($3::uuid[]))
and ($4::text[] is null or place.state = any ($4::text[]))
and (not place.ended or $11::boolean)
and nullif(
    ($5::text[] is null or place.queue = any ($5::text[]))
    and ($6::text[] is null or place.task = any ($6::text[]))
    and (
        ($7::text is null and $8::timestamptz is null and $9::timestamptz is null)
        or exists (
            select from {{schema}}.job
            where job.id = place.job_id
            and ($7::text is null or $7::text = any (job.tags))
            and ($8::timestamptz is null or job.created_at >= $8::timestamptz)
            and ($9::timestamptz is null or job.created_at < $9::timestamptz)
        )
    )
    and (
        $10::text is null
        or strpos(lower(place.reason), lower($10::text)) > 0
        or exists (
            select from {{schema}}.error
            where error.job_id = place.job_id
            and strpos(lower(error.message), lower($10::text)) > 0
        )
    ), false) is not null
order by place.job_id desc
limit $2::int
