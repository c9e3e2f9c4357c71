-- What a filter asks of a job's body. $5 tags   $6 created after   $7 created before   (null: any)
-- $18 text that fitting arguments have, unless they match $19   $20 text that fitting headers have,
-- unless they match $21: Python looks again at what these four let through
($5::text[] is null or job.tags @> $5::text[])
and ($6::timestamptz is null or job.created_at >= $6::timestamptz)
and ($7::timestamptz is null or job.created_at < $7::timestamptz)
and ($18::text is null or strpos(job.args, $18::text) > 0 or job.args ~ $19::text)
and ($20::text is null or strpos(job.headers, $20::text) > 0 or job.headers ~ $21::text)
