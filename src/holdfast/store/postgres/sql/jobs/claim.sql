-- $1 now   $2 worker   $3 tasks   $4 number of this claim
-- $5 queues, $6 limits: what is wanted   $11 how many of each begin at once
-- $12 whether the queues have rules (a total, aging), which the caller keeps
-- uses: claimed counted claimed_columns told_of_queues
-- let lease_columns: ties
-- let lease_values: ties
-- let ties: ties
-- let ruled: (select array_agg('=' || name) from {{schema}}.queue where name = any ($5::text[]) and settings ?| '{max_running,aging}' and not $12::boolean)
-- $7 queue, $8 from priority, $9 from seq, $10 to priority: the stretches of each queue, in order
--
-- A client without skip points sends one stretch for each queue, over all priorities from seq 0. A
-- client with skip points at priorities p1 < p2 sends (lowest .. p1 - 1), (p1 from its seq .. p2 - 1),
-- (p2 from its seq .. highest). So dead rows and unknown tasks before those points are not passed over
-- again, and a job of a new, more urgent priority is still found.
with asked as materialized (
    -- the gate: a worker whose own lease has lapsed gets no job, and a paused or cooling queue gives
    -- none; a star stands for every queue
    select wanted.queue, wanted.slots, wanted.free
    from unnest($5::text[], $6::int[], $11::int[]) as wanted (queue, slots, free)
    where exists (
        select from {{schema}}.worker
        where id = $2::uuid and expires_at > {{now}}
    )
    and not exists (
        select from {{schema}}.queue
        where queue.name = any (array[wanted.queue, '*'])
        and (queue.paused or queue.cool_until > {{now}} or queue.settings ?| '{max_running,aging}' and not $12::boolean)
    )
),
{{claimed}},
{{counted}},
{{told_of_queues}}
-- Every row tells it. If there is something to tell and no job, one row without a job does.
select {{claimed_columns}}, told.queues as told
from told
left join found on true
where found.job_id is not null or told.queues is not null
order by priority, seq
