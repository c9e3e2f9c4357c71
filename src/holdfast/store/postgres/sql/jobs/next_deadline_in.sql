-- $1 now
-- Only the nearest hundred are looked at. When all of those have ended, the hundredth's time is
-- answered: whoever wakes then finds them past, drops them, and sees further. Infinity never comes,
-- and nothing can be subtracted from it.
with nearest as materialized (
    select job_id, at from {{schema}}.deadline where at < 'infinity' order by at limit 100
),
live as materialized (
    select min(nearest.at) as at from nearest
    where exists (
        select from {{schema}}.place
        where place.job_id = nearest.job_id and not place.ended
    )
)
select extract(epoch from coalesce(
    live.at, (select max(at) from nearest having count(*) = 100)
) - {{now}})::float8
from live
