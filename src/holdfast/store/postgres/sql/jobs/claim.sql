-- $1 now   $2 worker   $3 tasks   $4 number of this claim
-- $5 queues, $6 limits: what is wanted   $11 how many of each begin at once
-- $12 whether the queues have rules (a total, aging), which the caller keeps   $13 whether they have totals
-- uses: counted
-- $7 queue, $8 from priority, $9 from seq, $10 to priority: the stretches of each queue, in order
--
-- A client without skip points sends one stretch for each queue, over all priorities from seq 0. A
-- client with skip points at priorities p1 < p2 sends (lowest .. p1 - 1), (p1 from its seq .. p2 - 1),
-- (p2 from its seq .. highest). So dead rows and unknown tasks before those points are not passed over
-- again, and a job of a new, more urgent priority is still found.
--
-- Every step is shaped so that the generic plan of a prepared statement is right with good,
-- missing or outdated statistics; the reasons stand at the steps.
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
halted as materialized (
    -- the paused tasks, each behind a star: mostly none
    select substr(name, 2) as task from {{schema}}.queue
    where paused and name > '*' and name < '+'
),
picked as materialized (
    -- Two limits: the inner one asks for the head of the index; the outer one stops reading, and so
    -- locking, as soon as all slots are filled. Because queue is compared by equality, the upper
    -- priority ends the scan; as a bound of a row comparison it would not. The task filter hides in
    -- "nullif … is not null", which the planner takes to pass nearly every row. Written as "= any" it
    -- would be estimated to leave one row, and for one row a bitmap of the whole queue plus a sort
    -- seems as cheap.
    select line.ctid
    from asked
    cross join lateral (
        select head.ctid
        from unnest($7::text[], $8::int[], $9::bigint[], $10::int[])
            as stretch (queue, from_priority, from_seq, to_priority)
        cross join lateral (
            select ready.ctid
            from {{schema}}.ready_plain as ready
            where ready.queue = asked.queue
            and (ready.priority, ready.seq) >= (stretch.from_priority, stretch.from_seq)
            and ready.priority <= stretch.to_priority
            and nullif(ready.task = any ($3::text[])
                and ready.task <> all (array(select task from halted)), false) is not null
            order by ready.priority, ready.seq
            limit asked.slots
            for update skip locked
        ) as head
        where stretch.queue = asked.queue
        limit asked.slots
    ) as line
),
taken as (
    -- by ctid as an array: a tid scan of exactly these rows, whatever the statistics say
    delete from {{schema}}.ready_plain
    where ctid = any (array(select ctid from picked))
    returning job_id, queue, priority, seq, task, attempts, crashes, fence, ties, since
),
behind as materialized (
    -- the first job of each queue that is claimed ahead; none while all jobs can begin at once
    select asked.queue, first.priority, first.seq
    from asked
    cross join lateral (
        select taken.priority, taken.seq from taken
        where taken.queue = asked.queue
        order by taken.priority, taken.seq offset asked.free limit 1
    ) as first
    where asked.free < asked.slots
),
found as materialized (
    -- one body per row by lateral with a constant limit: an index lookup each, never a hash of
    -- all bodies
    select taken.*, body.args, body.policy, body.tags, body.headers, body.timeout,
        body.deadline_at, body.created_at, exists (
            select from behind
            where behind.queue = taken.queue
            and (taken.priority, taken.seq) >= (behind.priority, behind.seq)
        ) as ahead
    from taken
    cross join lateral (
        select args, policy, tags, headers, timeout, deadline_at, created_at
        from {{schema}}.job where job.id = taken.job_id limit 1
    ) as body
),
leased as (
    insert into {{schema}}.lease (job_id, queue, priority, seq, task, attempts, crashes, fence,
        worker_id, batch, since, claimed_at, timeout_at, ahead, ties)
    select job_id, queue, priority, seq, task, attempts, crashes, fence + 1, $2::uuid, $4::bigint,
        since, {{now}}, {{now}} + timeout * interval '1 second', ahead, ties
    from found
),
counting as (
    select queue, task, 'ready' as source, 'running' as target, 'claimed' as what from found
),
{{counted}}
-- A row without a job says of a queue that jobs with limits may begin there, or if it has a task, that it has a
-- total or lets jobs age.
-- shaped for the driver: reading a uuid and two timestamps would cost it more than all the other
-- columns, and an empty array costs more than a null
select job_id::text, task, queue, priority, args, policy, attempts, crashes, fence + 1 as fence,
    date_part('epoch', created_at) as created_at,
    -- null where it is the moment before, as for most jobs
    case when since <> created_at then date_part('epoch', since) end as ready_at,
    date_part('epoch', {{now}}) as claimed_at,
    case when deadline_at > {{calendar_end}} then {{calendar_end}} else deadline_at end as deadline_at,
    case when cardinality(tags) > 0 then tags end as tags, headers,
    -- only a job that was claimed before can have left a checkpoint
    case when fence > 0 then (
        select checkpoint from {{schema}}.progress where progress.job_id = found.job_id
    ) end as checkpoint, ahead, case when $13::boolean then ties | 2::smallint else ties end as ties, seq
from found
union all
select null, null, asked.queue, null, null, null, null, null, null, null, null, null, null, null, null, null,
    null, null, null
from asked
where exists (select from {{schema}}.newcomer where newcomer.queue = asked.queue)
or exists (select from {{schema}}.line where line.queue = asked.queue) and (
    exists (select from {{schema}}.line where line.queue = asked.queue and line.parked_at is null)
    or exists (select from {{schema}}.bucket where has_waiting and opens_at <= {{now}}))
union all
select null, '', queue.name, null, null, null, null, null, null, null, null, null, null, null, null, null,
    null, null, null
from {{schema}}.queue
where queue.name = any ($5::text[]) and queue.settings ?| '{max_running,aging}' and not $12::boolean
order by priority, seq
