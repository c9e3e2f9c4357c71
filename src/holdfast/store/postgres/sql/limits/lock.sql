-- $1 now   $2 buckets, which have rows
-- uses: bucket_columns
select bucket.name, {{bucket_columns}}
from {{schema}}.bucket
left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(bucket.name)
where bucket.name = any ($2::text[])
order by bucket.name
for update of bucket
