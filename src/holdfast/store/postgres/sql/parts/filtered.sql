-- Which of the walked places a filter lets through. $1 ids   $2 states   $3 queues   $4 tasks
-- $5 tags   $6 created after   $7 created before   $8 text in an error   $9 whether any ended state is
-- wanted   $10 whether successes are wanted   $11 worker   $12 priority   $13 priority over
-- $14 priority under   $15 attempts over   $16 finished after   $17 finished before   (null: any)
-- $18 text that fitting arguments have, unless they match $19   $20 text that fitting headers have,
-- unless they match $21: Python looks again at what these four let through   $22 is of `walked`
-- {{once}} keeps or lets the planner read whole tables to know which rows exist.
($2::text[] is null or place.state = any ($2::text[]))
and ($3::text[] is null or place.queue = any ($3::text[]))
and ($4::text[] is null or place.task = any ($4::text[]))
and ($11::uuid is null or place.worker_id = $11::uuid)
and ($12::int is null or place.priority = $12::int)
and ($13::int is null or place.priority > $13::int)
and ($14::int is null or place.priority < $14::int)
and ($15::int is null or place.attempts > $15::int)
and ($16::timestamptz is null or place.finished_at >= $16::timestamptz)
and ($17::timestamptz is null or place.finished_at < $17::timestamptz)
and (
    $5::text[] is null and $18::text is null and $20::text is null
    and $6::timestamptz is null and $7::timestamptz is null
    or exists (
        select from {{schema}}.job
        where job.id = place.job_id
        and ($5::text[] is null or job.tags @> $5::text[])
        and ($6::timestamptz is null or job.created_at >= $6::timestamptz)
        and ($7::timestamptz is null or job.created_at < $7::timestamptz)
        and ($18::text is null or strpos(job.args, $18::text) > 0 or job.args ~ $19::text)
        and ($20::text is null or strpos(job.headers, $20::text) > 0 or job.headers ~ $21::text)
        {{once}}
    )
)
and (
    $8::text is null
    or strpos(lower(place.reason), lower($8::text)) > 0
    or exists (
        select from {{schema}}.happening
        where happening.job_id = place.job_id and happening.kind is not null
        and strpos(lower(happening.message), lower($8::text)) > 0
        {{once}}
    )
)
