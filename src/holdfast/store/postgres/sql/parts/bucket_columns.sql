-- The columns of one bucket, of `bucket` and `rule`; both may be absent.
rule.settings::text as settings, coalesce(rule.retired, false) as retired,
coalesce(bucket.in_use, 0) as in_use, bucket.override::text as override,
{{schema}}.micros(bucket.shut_until) as shut_until, coalesce(bucket.has_waiting, false) as has_waiting,
(select {{schema}}.need_of(line.needs, line.aside, largest)
 from {{schema}}.line, {{schema}}.largest_of(bucket, rule, {{now}}) as largest
 where bucket.has_waiting and line.parked_at = bucket.name and {{schema}}.has_jobs(line)
 and (line.needs <= largest or not line.aside and largest > 0)
 order by line.priority, line.turn, line.n limit 1) as needs,
coalesce(bucket.spent, 0) as spent, coalesce(bucket.since, 0) as since, coalesce(bucket.scale, 0) as scale,
bucket.slices, bucket.units, coalesce(bucket.alarms, 0) as alarms, {{schema}}.micros({{now}}) as now
