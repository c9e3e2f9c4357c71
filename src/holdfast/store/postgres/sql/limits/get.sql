-- $1 now   $2 buckets, in order
-- A bucket need not have a row.
select given.name, rule.settings, coalesce(rule.retired, false) as retired, coalesce(bucket.in_use, 0) as in_use,
    bucket.override,
    (select count(*)::int from {{schema}}.line where bucket.has_waiting and line.parked_at = given.name) as waiting,
    case when bucket.shut_until > {{now}}
        then extract(epoch from bucket.shut_until - {{now}})::float8 end as drained_for,
    extract(epoch from {{schema}}.opening_of(bucket, rule, {{now}}) - {{now}})::float8 as opens_in
from unnest($2::text[]) with ordinality as given (name, n)
left join {{schema}}.bucket on bucket.name = given.name
left join {{schema}}.limit_rule as rule on rule.name = split_part(given.name, ':', 1)
order by given.n
