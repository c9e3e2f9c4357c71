-- $1 now   $2 bucket of a queue's total
-- How many more jobs of the queue may run; none where the queue has no total any more.
select {{schema}}.free_of(bucket, rule, {{now}}) as room
from {{schema}}.bucket
join {{schema}}.limit_rule as rule on rule.name = bucket.name and not rule.retired
where bucket.name = $2::text
for update of bucket
