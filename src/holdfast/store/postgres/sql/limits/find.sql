-- $1 names (null: all)
select name, settings::text as settings, edited, retired, revision, (
    select count(*)::int from {{schema}}.bucket
    where bucket.name >= rule.name || ':' and bucket.name < rule.name || ';') as buckets
from {{schema}}.limit_rule as rule
where ($1::text[] is null or name = any ($1::text[])) and not starts_with(name, 'queue:')
order by name
