-- $1 ids (null: any)   $2 states (null: any)   $3 limit   $4 the operation that they stand behind
select id, request, state, revision, progress, hand, begun_at, advanced_at
from {{schema}}.operation
where ($1::uuid[] is null or id = any ($1::uuid[]))
and ($2::text[] is null or state = any ($2::text[]))
and (
    $4::uuid is null
    or (begun_at, id) < (select begun_at, id from {{schema}}.operation where id = $4::uuid)
)
order by begun_at desc, id desc
limit $3::int
