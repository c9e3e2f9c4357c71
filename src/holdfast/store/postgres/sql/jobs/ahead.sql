-- $1 id
-- Counts up to 1000, so that a very long queue costs no more.
select count(*)::int
from (
    select from {{schema}}.ready_plain as mine
    cross join lateral (
        select from {{schema}}.ready_plain as other
        where other.queue = mine.queue
        and (other.priority, other.seq) < (mine.priority, mine.seq)
        order by other.priority, other.seq
        limit 1000
    ) as before
    where mine.job_id = $1::uuid
) as ahead
