-- $1 queue   $2 priority   $3 since when, at the latest   $4 how many at most
-- How many plain jobs at the head of a priority have waited for so long.
select count(*)::int
from (
    select since from {{schema}}.ready_plain where queue = $1::text and priority = $2::int
    order by seq limit $4::int
) as first
where date_part('epoch', since) <= $3::float8
