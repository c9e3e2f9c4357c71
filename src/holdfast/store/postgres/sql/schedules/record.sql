-- $1 now   $2 schedules   $3 scopes   $4 plan times   $5 decisions   $6 reasons   $7 job ids
-- $8 whether the cursor follows   $9 how many of a scope's former jobs to check
-- Each (schedule, scope, plan time) at most once. Answers with the positions of the rows written.
-- The row is the lock: of several recorders one writes it, the others find it there. All lock in
-- the same order (schedules, rows, cursors; each by key), so none waits for another in a ring.
with known as materialized (
    -- one recorder of a schedule at a time: the next one sees the jobs that this one starts, and may
    -- have decided that no job of the scope runs (lock.sql)
    select name, keep from {{schema}}.schedule
    where name = any (array(select distinct unnest($2::text[])))
    order by name for no key update
),
new as materialized (
    select given.*, known.keep
    from unnest($2::text[], $3::text[], $4::timestamptz[], $5::text[], $6::text[], $7::uuid[],
        $8::boolean[])
        with ordinality as given (schedule, scope, at, decision, reason, job_id, moves, n)
    join known on known.name = given.schedule
),
written as (
    insert into {{schema}}.ledger as old
        (schedule, scope, at, decision, reason, recorded_at, keep_until, job_id)
    select schedule, scope, at, decision, reason, {{now}},
        {{now}} + keep * interval '1 second', job_id
    from new order by schedule, scope, at
    on conflict (schedule, scope, at) do update set
        decision = excluded.decision, reason = excluded.reason,
        recorded_at = excluded.recorded_at, keep_until = excluded.keep_until,
        job_id = excluded.job_id
    where (old.decision in ('failed', 'waiting') and excluded.decision <> old.decision)
    or (
        -- a backfill of a plan that started no job; "is true" keeps the subquery a hashed lookup
        old.job_id is null and excluded.decision = 'fired'
        and ((old.schedule, old.scope, old.at) in (
            select schedule, scope, at from new where not moves
        )) is true
    )
    returning schedule, scope, at, job_id
),
ours as materialized (
    select new.schedule, new.scope, new.at, written.job_id, new.moves, new.n
    from written join new using (schedule, scope, at)
),
advanced as (
    insert into {{schema}}.schedule_cursor as old (schedule, scope, at)
    select schedule, scope, max(at) from ours where moves
    group by schedule, scope order by schedule, scope
    on conflict (schedule, scope) do update set at = greatest(old.at, excluded.at)
    returning schedule, scope
),
over as materialized (
    -- former jobs of these scopes that have ended since; the cursors are locked by now. Only the
    -- oldest are checked: a long backlog of live jobs must not be walked at every plan
    select mine.ctid, mine.schedule, mine.scope, mine.at, mine.epoch
    from advanced
    cross join lateral (
        select ctid, * from {{schema}}.started
        where started.schedule = advanced.schedule and started.scope = advanced.scope
        order by started.at limit $9::int
    ) as mine
    where (
        select true from {{schema}}.place
        where place.job_id = mine.job_id and not place.ended limit 1
    ) is not true
),
tidied as (
    -- by ctid, so that no estimate makes it a walk of the table; a job that was requeued meanwhile
    -- has another epoch, and its row stays
    delete from {{schema}}.started
    where ctid = any (array(select ctid from over))
    and ((schedule, scope, at, epoch) in (select schedule, scope, at, epoch from over)) is true
),
begun as (
    insert into {{schema}}.started (schedule, scope, at, job_id)
    select schedule, scope, at, job_id from ours where job_id is not null
    order by schedule, scope, at
    on conflict (schedule, scope, at) do update set job_id = excluded.job_id
)
select n::int - 1 as place from ours
