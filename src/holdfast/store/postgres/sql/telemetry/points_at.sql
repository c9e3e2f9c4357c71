-- $1 steps   $2 when each of them began
select series.step, series.at, series.queue, series.task, series.counts, series.times
from unnest($1::int[], $2::timestamptz[]) as wanted (step, at)
cross join unnest(array['all', 'queue', 'task']) as grains (grain)
join {{schema}}.series
    on series.step = wanted.step and series.grain = grains.grain and series.at = wanted.at
