-- Which rows of the view `place` a filter lets through. $1 ids   $2 states   $3 queues   $4 tasks
-- $5 tag   $6 created after   $7 created before   $8 text in an error   (null: any)
-- $9 whether any ended state is wanted
-- Filters that no index serves hide in "nullif … is not null", which the planner takes to pass nearly
-- every row. If it guessed that they leave one row, it would read and sort all history instead of
-- walking the index.
($1::uuid[] is null or place.job_id = any ($1::uuid[]))
and ($2::text[] is null or place.state = any ($2::text[]))
and (not place.ended or $9::boolean)
and nullif(
    ($3::text[] is null or place.queue = any ($3::text[]))
    and ($4::text[] is null or place.task = any ($4::text[]))
    and (
        ($5::text is null and $6::timestamptz is null and $7::timestamptz is null)
        or exists (
            select from {{schema}}.job
            where job.id = place.job_id
            and ($5::text is null or $5::text = any (job.tags))
            and ($6::timestamptz is null or job.created_at >= $6::timestamptz)
            and ($7::timestamptz is null or job.created_at < $7::timestamptz)
        )
    )
    and (
        $8::text is null
        or strpos(lower(place.reason), lower($8::text)) > 0
        or exists (
            select from {{schema}}.error
            where error.job_id = place.job_id
            and strpos(lower(error.message), lower($8::text)) > 0
        )
    ), false) is not null
