-- $1 now
-- Only the nearest hundred deadlines are checked. If all of their jobs have ended, the hundredth's time
-- is answered: the sweep at that time drops these deadlines, and the next call sees further. Infinite
-- deadlines are left out, since nothing can be subtracted from infinity.
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
