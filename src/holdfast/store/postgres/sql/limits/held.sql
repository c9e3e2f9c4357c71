-- $1 buckets
select part.name, sum(coalesce((string_to_array(lease.costs, ','))[part.place]::bigint, 1))::bigint as held
from {{schema}}.lease
cross join lateral string_to_table(lease.buckets, E'\n') with ordinality as part (name, place)
where lease.buckets is not null and part.name = any ($1::text[])
group by part.name
