-- $1 now   $2 buckets   $3 what they hold
update {{schema}}.bucket set in_use = held.units, opens_at = case when has_waiting then {{now}} end
from unnest($2::text[], $3::bigint[]) as held (name, units)
where bucket.name = held.name
