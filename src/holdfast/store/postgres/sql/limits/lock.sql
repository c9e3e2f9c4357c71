-- $1 now   $2 buckets, which have rows
-- uses: bucket_columns
-- `locked_at` of the last one is the time at which all were locked.
select locked.*, {{schema}}.micros(coalesce($1::timestamptz, clock_timestamp())) as locked_at
from (
    select bucket.name, {{bucket_columns}}
    from {{schema}}.bucket
    left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(bucket.name)
    where bucket.name = any ($2::text[])
    order by bucket.name
    for update of bucket
) as locked
