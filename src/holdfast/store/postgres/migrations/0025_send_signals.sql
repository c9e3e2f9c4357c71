-- Keeps signals for jobs, which are locked where they are. It is a function, and volatile, so each of its
-- statements has a snapshot of its own: whatever moved a job before the lock, or recorded a step of it, is
-- seen. So sending takes one round trip.
--
-- `befores`: steps that must not have ended. `most`: signals that a job may have, without those whose
-- names begin with `own`. `largest`: bytes that those may take that no step has taken. Answers for each
-- signal, by its place: the state of its job (null: unknown), whether it fits (null: late or a duplicate),
-- whether it is kept, whether it is late, and whether the job is suspended for it.
create function {{schema}}.keep_signals(
    now timestamptz, ids uuid[], names text[], texts text[], keys text[], befores text[],
    most int, largest bigint, own text
)
returns table (
    place bigint, job_id uuid, name text, state text, fits boolean, kept boolean, late boolean,
    awaited boolean
)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    places uuid[];
    states text[];
    moving boolean;
    untied boolean;
    told uuid[];
begin
    -- Most signals are for suspended jobs.
    select array_agg(job_id), array_agg('suspended'::text), bool_or(ties & 32 = 0),
        count(*) < (select count(distinct id) from unnest(ids) as given (id))
    into places, states, untied, moving
    from (
        select job_id, ties from {{schema}}.suspended
        where job_id = any (ids) order by job_id for no key update
    ) as waiting;
    if moving then
        untied := true;
        for tries in 1..50 loop
            with in_ready as materialized (
                select job_id, 'ready' as state from {{schema}}.ready
                where job_id = any (ids) order by job_id for no key update
            ),
            in_lease as materialized (
                select job_id, 'running' as state from {{schema}}.lease
                where job_id = any (ids) order by job_id for no key update
            ),
            in_blocked as materialized (
                select job_id, 'blocked' as state from {{schema}}.blocked
                where job_id = any (ids) order by job_id for no key update
            ),
            in_scheduled as materialized (
                select job_id, 'scheduled' as state from {{schema}}.scheduled
                where job_id = any (ids) order by job_id for no key update
            ),
            in_suspended as materialized (
                select job_id, 'suspended' as state from {{schema}}.suspended
                where job_id = any (ids) order by job_id for no key update
            ),
            found as (
                select * from in_ready union all select * from in_lease union all select * from in_blocked
                union all select * from in_scheduled union all select * from in_suspended
                union all select job_id, state from {{schema}}.outcome where job_id = any (ids)
            )
            -- a job that somebody moved meanwhile has a body and no place here: it is looked for again
            select array_agg(asked.id), array_agg(found.state), bool_or(found.state is null
                and exists (select from {{schema}}.job where job.id = asked.id))
            into places, states, moving
            from (select distinct id from unnest(ids) as given (id)) as asked
            left join found on found.job_id = asked.id;
            exit when not moving;
            if tries > 3 then
                perform pg_sleep(0.005);
            end if;
        end loop;
    end if;
    if moving then
        raise serialization_failure using message = 'a job that a signal is for was moved again and again';
    end if;
    return query
    with given as materialized (
        select given.*, places.state, known.key is not null as known,
            known.key is null and ended.name is not null as late
        from unnest(ids, names, texts, keys, befores) with ordinality
            as given (job_id, name, value, key, before, place)
        join unnest(places, states) as places (job_id, state) on places.job_id = given.job_id
        left join {{schema}}.signal as known
            on known.job_id = given.job_id and known.key = given.key
        left join {{schema}}.step as ended
            on ended.job_id = given.job_id and ended.name = given.before
            and (ended.result is not null or (ended.kind is not null and ended.until is null))
    ),
    live as materialized (
        select * from given
        where state in ('ready', 'running', 'blocked', 'scheduled', 'suspended')
    ),
    had as materialized (
        select job_id, count(*) filter (where not starts_with(name, own)) as number, max(n) as n,
            coalesce(sum(octet_length(value)) filter (where taken_by is null), 0) as size
        from {{schema}}.signal where job_id = any (ids) group by job_id
    ),
    new as materialized (
        select live.*, coalesce(had.n, 0) + row_number() over earlier as n,
            coalesce(had.number, 0)
                + count(*) filter (where not starts_with(live.name, own)) over earlier as number,
            coalesce(had.size, 0) + sum(octet_length(live.value)) over earlier as size
        from live
        left join had on had.job_id = live.job_id
        where not live.known and not live.late
        window earlier as (partition by live.job_id order by live.place)
    ),
    written as (
        insert into {{schema}}.signal (job_id, n, name, value, key, at)
        select job_id, n, name, value, key, now from new
        where number <= most and size <= largest
        order by job_id, n
        on conflict (job_id, key) do nothing
        returning job_id, n
    )
    select given.place, given.job_id, given.name, given.state,
        new.number <= most and new.size <= largest, written.n is not null,
        given.late and given.state in ('ready', 'running', 'blocked', 'scheduled', 'suspended'),
        written.n is not null and awaited.here is not null
    from given
    left join new on new.place = given.place
    left join written on written.job_id = new.job_id and written.n = new.n
    left join lateral (
        -- by key for each job, whatever the planner thinks of how many are suspended
        select true as here from {{schema}}.suspended
        join {{schema}}.step as wait on wait.job_id = suspended.job_id and wait.fence = suspended.fence
        where suspended.job_id = given.job_id and wait.awaits = given.name
        limit 1
    ) as awaited on given.state = 'suspended'
    order by given.place;
    -- A job that waits for a signal has recorded its wait, and so has the tie.
    if untied then
        told := array(select job_id from {{schema}}.signal where job_id = any (ids));
        with in_ready as (
            update {{schema}}.ready set ties = ties | 32 where job_id = any (told) and ties & 32 = 0
        ),
        in_lease as (
            update {{schema}}.lease set ties = ties | 32 where job_id = any (told) and ties & 32 = 0
        ),
        in_blocked as (
            update {{schema}}.blocked set ties = ties | 32 where job_id = any (told) and ties & 32 = 0
        ),
        in_scheduled as (
            update {{schema}}.scheduled set ties = ties | 32 where job_id = any (told) and ties & 32 = 0
        )
        update {{schema}}.suspended set ties = ties | 32 where job_id = any (told) and ties & 32 = 0;
    end if;
end $$;

-- Undoes a statement, which is done again from the beginning.
create function {{schema}}.again(why text) returns boolean language plpgsql as $$
begin
    raise serialization_failure using message = why;
end $$;
