-- $1 .. $13 as in insert.sql   $14 keys   $15 states that hold the key, one array literal a job
-- $16 how long to wait for a key that an open transaction holds   $17 periods, in seconds
-- and the columns of the body
-- uses: placed counted woken
-- Takes each key that is free, and inserts the job of each key taken. Jobs without a key are inserted
-- too, so that a batch arrives in the order it was given.
-- A key is free when no job holds it, or when its holder is in a state outside the key's mask and its
-- period is over. On a
-- conflict the server shows the newest version of the key, but the statement's snapshot decides where
-- the holder is. So a key that changed hands since the snapshot (another job, another epoch) is left
-- for a statement with a newer one.
-- Keys are taken in their own order, so that two batches never wait for each other in a ring.
-- The bound on waiting is set inside the statement, which spares a round trip. It does not cover locks
-- of tables: the server takes those before the statement begins.
with bounded as materialized (
    select set_config('lock_timeout', $16::text, true)
),
new as materialized (
    select id, task, queue, priority, {{body}}, timeout, ties, blocked, key, states, n,
        {{now}} + period * interval '1 second' as until,
        coalesce(run_at, {{now}} + delay * interval '1 second') as due_at,
        coalesce(deadline_at, {{now}} + deadline_in * interval '1 second') as deadline_at
    from unnest($3::uuid[], $4::text[], $5::text[], $6::int[], $7::float8[], $8::timestamptz[],
        $9::float8[], $10::timestamptz[], $11::float8[], $12::smallint[], $13::boolean[],
        $14::text[], $15::text[], $17::float8[], {{body_arrays}}) with ordinality
        as given (id, task, queue, priority, timeout, run_at, delay, deadline_at, deadline_in, ties,
            blocked, key, states, period, {{body}}, n)
),
released as materialized (
    select held.key, held.job_id, held.epoch
    from new
    cross join lateral (
        select key, job_id, states, epoch, until from {{schema}}.unique_key
        where unique_key.key = new.key limit 1
    ) as held
    where not exists (
        select from {{schema}}.place
        where place.job_id = held.job_id
        and (place.state = any (held.states) or held.until > {{now}})
    )
),
known as materialized (
    -- jobs of a repeated insert, whatever became of them and their keys since
    select id from new where exists (select from {{schema}}.job where job.id = new.id)
),
taken as (
    insert into {{schema}}.unique_key as held (key, job_id, states, until)
    select key, id, states::text[], until from new
    where key is not null and (id in (select id from known)) is not true
    and (select true from bounded)
    order by key
    on conflict (key) do update
    set job_id = excluded.job_id, states = excluded.states, epoch = held.epoch + 1,
        until = excluded.until
    where exists (
        select from released
        where released.key = held.key and released.job_id = held.job_id
        and released.epoch = held.epoch
    )
    returning held.job_id
),
body as (
    insert into {{schema}}.job
        (id, task, {{body}}, timeout, unique_key, unique_states, deadline_at, created_at)
    select id, task, {{body_given}}, timeout, key, states::text[], deadline_at, {{now}}
    from new
    where key is null or (id in (select job_id from taken)) is true
    order by n
    on conflict (id) do nothing
    returning id
),
{{placed}},
{{woken}}
select created.id::text, woken.calls, false as was_there from created cross join woken
union all
select id::text, 0, true from known
