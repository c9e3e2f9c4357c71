-- $1 now   $2 worker   $3 tasks   $4 number of this claim
-- $5 queues, $6 limits: what is wanted   $11 how many of each begin at once
-- $12 whether the queues have rules (a total, aging), which the caller keeps
-- uses: claimed counted claimed_columns lines_wait
-- let lease_columns: ties
-- let lease_values: ties
-- let ties: ties
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
{{counted}}
-- A row without a job says of a queue that jobs with limits may begin there, or if it has a task, that it has a
-- total or lets jobs age.
select {{claimed_columns}}
from found
union all
{{lines_wait}}
union all
select null, '', queue.name, null, null, null, null, null, null, null, null, null, null, null, null, null,
    null, null, null
from {{schema}}.queue
where queue.name = any ($5::text[]) and queue.settings ?| '{max_running,aging}' and not $12::boolean
order by priority, seq
