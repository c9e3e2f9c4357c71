-- $1 now   $2 worker   $3 tasks   $4 number of this claim
-- $5 queue, $6 limit: what is wanted, of one queue   $11 how many begin at once   $12 bucket of the queue's total
-- $7 queue, $8 from priority, $9 from seq, $10 to priority: the stretches of the queue, in order (claim.sql)
-- uses: claimed counted claimed_columns told_of_queues
-- let lease_columns: ties, buckets
-- let lease_values: ties, $12::text
-- let ties: ties | 2::smallint
-- let ruled: case when not exists (select from total) or exists (select from {{schema}}.queue where name = any ($5::text[]) and settings ? 'aging') then array['=' || ($5::text[])[1]] end
-- Plain jobs of a queue that has a total, as far as the total has room: as jobs/claim.sql, but that the leases count in
-- the bucket of the total. Whoever waited for the bucket sees what it counts then, and a job that was taken meanwhile
-- is passed over. The bucket is counted by name and never by ctid (`give_back`).
with total as materialized (
    select {{schema}}.free_of(bucket, rule, {{now}}) as room
    from {{schema}}.bucket
    join {{schema}}.limit_rule as rule on rule.name = bucket.name and not rule.retired
    where bucket.name = $12::text
    for update of bucket
),
asked as materialized (
    -- the gate of claim.sql
    select wanted.queue, least(wanted.slots, total.room)::int as slots, wanted.free
    from unnest($5::text[], $6::int[], $11::int[]) as wanted (queue, slots, free)
    cross join total
    where exists (
        select from {{schema}}.worker
        where id = $2::uuid and expires_at > {{now}}
    )
    and not exists (
        select from {{schema}}.queue
        where queue.name = any (array[wanted.queue, '*']) and (queue.paused or queue.cool_until > {{now}})
    )
),
{{claimed}},
{{counted}},
counted_in_total as (
    update {{schema}}.bucket set in_use = in_use + (select count(*) from found), touched_at = {{now}}
    where name = $12::text and exists (select from found)
),
{{told_of_queues}}
-- As claim.sql. The queue is told as one with rules if it has other rules by now, or its total has no bucket.
select {{claimed_columns}}, told.queues as told
from told
left join found on true
where found.job_id is not null or told.queues is not null
order by priority, seq
