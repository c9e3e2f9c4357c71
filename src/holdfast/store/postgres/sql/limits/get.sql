-- $1 now   $2 buckets, in order
-- uses: bucket_columns
-- A bucket need not have a row.
select given.name, (
        select count(*)::int from {{schema}}.line where bucket.has_waiting and line.parked_at = given.name) as waiting,
    {{bucket_columns}}
from unnest($2::text[]) with ordinality as given (name, n)
left join {{schema}}.bucket on bucket.name = given.name
left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(given.name)
order by given.n
