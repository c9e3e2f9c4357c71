-- Gives plain jobs to a worker. Expects `asked` (queue, slots, free), the parameters of claim.sql up to $10, and two
-- words: `lease_columns` and `lease_values`, the last columns of a lease and what they get. Gives `found`, the jobs,
-- and the rows that `counted` expects.
--
-- Every step is shaped so that the generic plan of a prepared statement is right with good,
-- missing or outdated statistics; the reasons stand at the steps.
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
        worker_id, batch, since, claimed_at, timeout_at, ahead, {{lease_columns}})
    select job_id, queue, priority, seq, task, attempts, crashes, fence + 1, $2::uuid, $4::bigint,
        since, {{now}}, {{now}} + timeout * interval '1 second', ahead, {{lease_values}}
    from found
),
counting as (
    select queue, task, 'ready' as source, 'running' as target, 'claimed' as what from found
)
