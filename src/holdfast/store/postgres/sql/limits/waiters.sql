-- $1 now   $2 bucket   $3 how many   $4 those that can never pass, or the others
select first.job_id::text, line.task, line.queue, line.needs
from {{schema}}.bucket
left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(bucket.name)
cross join {{schema}}.largest_of(bucket, rule, {{now}}) as largest
join {{schema}}.line on line.parked_at = bucket.name and (line.needs > largest and largest > 0) = $4::boolean
cross join lateral (
    select ready.job_id from {{schema}}.ready_limited as ready
    where ready.queue = line.queue and ready.priority = line.priority and ready.task = line.task
    and ready.buckets = line.buckets
    order by ready.seq limit 1
) as first
where bucket.name = $2::text
order by line.priority, line.turn, line.n
limit $3::int
