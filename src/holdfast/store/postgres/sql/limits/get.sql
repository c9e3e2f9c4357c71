-- $1 now   $2 buckets, in order
-- uses: bucket_columns
-- A bucket need not have a row.
select given.name, waiting.lines as waiting, waiting.stuck,
    {{bucket_columns}}
from unnest($2::text[]) with ordinality as given (name, n)
left join {{schema}}.bucket on bucket.name = given.name
left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(given.name)
cross join lateral (
    select count(*)::int as lines, (count(*) filter (where line.needs > largest and largest > 0))::int as stuck
    from {{schema}}.line, {{schema}}.largest_of(bucket, rule, {{now}}) as largest
    where bucket.has_waiting and line.parked_at = given.name and {{schema}}.has_jobs(line)
) as waiting
order by given.n
