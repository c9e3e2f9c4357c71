-- Which of the walked places a filter lets through, but for what it asks of bodies. $2 states
-- $3 queues   $4 tasks   $8 text in an error   $11 worker   $12 priority   $13 priority over
-- $14 priority under   $15 attempts over   $16 finished after   $17 finished before   (null: any)
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
    $8::text is null
    or strpos(lower(place.reason), lower($8::text)) > 0
    or exists (
        select from {{schema}}.happening
        where happening.job_id = place.job_id and happening.kind is not null
        and strpos(lower(happening.message), lower($8::text)) > 0
        {{once}}
    )
)
