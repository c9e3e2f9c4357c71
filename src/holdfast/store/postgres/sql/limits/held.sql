-- $1 buckets
select name, count(*)::int as held
from {{schema}}.lease cross join lateral unnest(string_to_array(lease.buckets, E'\n')) as name
where lease.buckets is not null and name = any ($1::text[])
group by name
