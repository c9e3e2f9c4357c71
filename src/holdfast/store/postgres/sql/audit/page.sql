-- $1 now   $2 by   $3 verb   $4 target   $5 begun after   $6 begun before (each null: any)
-- $7 the last id of the page before   $8 limit
select id, by, verb, target, which, arguments, begun_at, seen_at, closed_at, outcome, changed, error,
    {{now}} as read_at
from {{schema}}.audit
where ($2::text is null or by = $2::text)
and ($3::text is null or verb = $3::text)
and ($4::text is null or (target = $4::text and target <> ''))
and ($5::timestamptz is null or begun_at > $5::timestamptz)
and ($6::timestamptz is null or begun_at < $6::timestamptz)
and (
    $7::uuid is null
    or (begun_at, id) < (select begun_at, id from {{schema}}.audit where id = $7::uuid)
)
order by begun_at desc, id desc
limit $8::int
