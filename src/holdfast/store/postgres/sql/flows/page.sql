-- $1 ids   $2 states   $3 names   $4 tags   $5 created after   $6 created before   (null: any)
-- $7 behind this id   $8 limit   $9 whether live flows are wanted   $10 whether ended ones are
-- uses: flow_columns
-- Live flows have an index of their own, which is read where many ended ones are kept.
select {{flow_columns}}
from (
    select * from {{schema}}.flow where finished_at is null and $9::boolean
    union all
    select * from {{schema}}.flow where finished_at is not null and $10::boolean
) as flow
where ($1::uuid[] is null or flow.id = any ($1::uuid[]))
and ($2::text[] is null or flow.state = any ($2::text[]))
and ($3::text[] is null or flow.name = any ($3::text[]))
and ($4::text[] is null or flow.tags @> $4::text[])
and ($5::timestamptz is null or flow.created_at >= $5::timestamptz)
and ($6::timestamptz is null or flow.created_at < $6::timestamptz)
and ($7::uuid is null or flow.id < $7::uuid)
order by flow.id desc
limit $8::int
