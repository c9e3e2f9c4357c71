-- Limits, their buckets, and the lines of jobs that pass the same buckets.

create table {{schema}}.limit_rule (
    name text collate "C" primary key,
    settings text not null,
    edited boolean not null default false,
    retired boolean not null default false,
    revision int not null default 1
);

-- `has_waiting`: lines are parked at it; `opens_at` is then when to look at it again (null: when a job
-- ends or an operator changes it). Both are written only while lines wait, so that counting is an update
-- that touches no index.
create table {{schema}}.bucket (
    name text collate "C" primary key,
    in_use bigint not null default 0,
    override text,
    shut_until timestamptz,
    throttles int not null default 0,
    has_waiting boolean not null default false,
    opens_at timestamptz,
    touched_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
create index bucket_opens on {{schema}}.bucket (opens_at) where has_waiting and opens_at is not null;

-- The buckets that a job with limits passes.
create table {{schema}}.limited (
    job_id uuid primary key,
    buckets text collate "C" not null
);

-- The jobs of one queue, priority and task that pass the same buckets. A line that meets a full bucket is
-- parked there, out of the index that claims read.
create sequence {{schema}}.line_turn;
create table {{schema}}.line (
    queue text collate "C" not null,
    priority int not null,
    task text collate "C" not null,
    buckets text collate "C" not null,
    turn bigint not null default nextval('{{schema}}.line_turn'),
    parked_at text collate "C",
    primary key (queue, priority, task, buckets)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index line_open on {{schema}}.line (queue, priority, turn) where parked_at is null;
create index line_parked on {{schema}}.line (parked_at, priority, turn) where parked_at is not null;

-- Jobs came to these lines. Whoever puts a job in a line only adds a row here, one for each transaction: an
-- insert may sit in a user's transaction for minutes, and must not lock what claims and other inserts need.
create table {{schema}}.newcomer (
    n bigint generated always as identity primary key,
    by bigint not null default txid_current(),
    queue text collate "C" not null,
    priority int not null,
    task text collate "C" not null,
    buckets text collate "C" not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index newcomer_queue on {{schema}}.newcomer (queue);
create index newcomer_of on {{schema}}.newcomer (by, queue, priority, task, buckets);

-- What a running job counts in; null for a job without limits.
alter table {{schema}}.lease add column buckets text collate "C";

-- A ready job with limits stands in another index than the others, from its first version on: dead entries of
-- such jobs would lie before the head of the line of the others. A boolean, because the planner takes
-- `buckets is null` for very few rows, and would plan claims for that.
alter table {{schema}}.ready add column buckets text collate "C",
    add column limited boolean not null generated always as (ties & 2 <> 0) stored;
-- The new column has written the table anew, without the pages that keep its indexes the cheaper guess (0001).
-- Its rows are wider now, so that as many pages would seem to hold too few rows.
insert into {{schema}}.ready (job_id, queue, priority, seq, task)
select gen_random_uuid(), '', 0, 0, '' from generate_series(1, 16000);
delete from {{schema}}.ready where queue = '' and seq = 0;
drop index {{schema}}.ready_line;
create index ready_line on {{schema}}.ready (queue, priority, seq) where not limited;
create index ready_limited on {{schema}}.ready (queue, priority, task, buckets, seq) where limited;

-- Many statements make jobs ready; those with limits have to stand in their lines, whoever does it. The
-- condition of the trigger is all that it costs a job without limits.
create function {{schema}}.stand() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then -- a job may have the tie and pass no bucket
        update {{schema}}.ready set buckets = coalesce(
            (select limited.buckets from {{schema}}.limited where limited.job_id = new.job_id), '')
        where ready.job_id = new.job_id
        returning ready.buckets into new.buckets;
    end if;
    insert into {{schema}}.newcomer (queue, priority, task, buckets)
    select new.queue, new.priority, new.task, new.buckets
    where not exists (
        select from {{schema}}.newcomer
        where newcomer.by = txid_current() and newcomer.queue = new.queue
        and newcomer.priority = new.priority and newcomer.task = new.task
        and newcomer.buckets = new.buckets);
    return null;
end $$;
create trigger stand after insert on {{schema}}.ready for each row
when (new.ties & 2 <> 0) execute function {{schema}}.stand();
create trigger stand_anew after update of queue, priority on {{schema}}.ready for each row
when (new.limited) execute function {{schema}}.stand();

-- How many more jobs a bucket lets begin (`holdfast.limits.admission`).
create function {{schema}}.room_of(bucket {{schema}}.bucket, rule {{schema}}.limit_rule, now timestamptz)
returns bigint language sql immutable as $$
    select case
        when rule.retired then 2147483647
        when rule.name is null or bucket.shut_until > now then 0
        else greatest(0, (coalesce(bucket.override, rule.settings)::jsonb ->> 'most')::bigint
            - coalesce(bucket.in_use, 0))
        end
$$;

-- When to look at a bucket again at which lines wait; null where time alone does not open it.
create function {{schema}}.opening_of(bucket {{schema}}.bucket, rule {{schema}}.limit_rule, now timestamptz)
returns timestamptz language sql immutable as $$
    select case
        when {{schema}}.room_of(bucket, rule, now) > 0 then now
        when rule.name is not null and bucket.shut_until > now then bucket.shut_until
        end
$$;

-- Open the lines that jobs came to, and as many lines at each bucket with room as it has room for. Lines are
-- locked in their order. A claim locks lines without waiting, so it never waits for this in a circle.
create function {{schema}}.hear(queues text[], now timestamptz) returns void language plpgsql as $$
declare
    found record;
    opened bigint;
begin
    with heard as (
        delete from {{schema}}.newcomer
        where n = any (array(
            select n from {{schema}}.newcomer
            where queue = any (queues) order by n limit 5000 for update skip locked))
        returning queue, priority, task, buckets
    )
    insert into {{schema}}.line as known (queue, priority, task, buckets)
    select queue, priority, task, buckets from heard
    group by queue, priority, task, buckets
    order by queue, priority, task, buckets
    -- waits for a claim that may be about to remove the line
    on conflict (queue, priority, task, buckets) do update set turn = known.turn;

    for found in
        select bucket.name, {{schema}}.room_of(bucket, rule, now) as room,
            {{schema}}.opening_of(bucket, rule, now) as opening
        from {{schema}}.bucket
        left join {{schema}}.limit_rule as rule on rule.name = split_part(bucket.name, ':', 1)
        where bucket.has_waiting and bucket.opens_at <= now
        order by bucket.opens_at limit 100
        for update of bucket skip locked
    loop
        update {{schema}}.line set parked_at = null
        where (queue, priority, task, buckets) in (
            select queue, priority, task, buckets from {{schema}}.line
            where parked_at = found.name
            order by priority, turn limit found.room
            for update skip locked);
        update {{schema}}.bucket
        set opens_at = found.opening,
            has_waiting = exists (select from {{schema}}.line where parked_at = found.name)
        where name = found.name;
    end loop;
end $$;

-- Give jobs with limits of one queue to a worker: one turn of the lines, as far as all their buckets have room.
-- First the lines are locked, then their buckets, in order; after that each statement sees what is true until
-- this transaction ends. `below`: only lines of a better priority, and at this one at most half of what is left.
create function {{schema}}.admit(worker uuid, number bigint, tasks text[], wanted text, most int, free int,
    below int, now timestamptz)
returns table (job_id uuid, task text, queue text, priority int, args text, policy text, attempts int,
    crashes int, fence bigint, created_at timestamptz, since timestamptz, deadline_at timestamptz,
    tags text[], headers text, checkpoint text, ahead boolean, ties smallint, seq bigint)
language plpgsql set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    lines {{schema}}.line[];
    one {{schema}}.line;
    names text[];
    rooms bigint[];
    used bigint[];
    parked boolean[];
    parts text[];
    place int;
    room bigint;
    size int;
    share int;
    given int := 0;
    got uuid[];
    all_given uuid[] := '{}';
begin
    lines := array(
        select line from {{schema}}.line
        where queue = wanted and parked_at is null and task = any (tasks)
        and (below is null or priority <= below)
        order by priority, turn limit greatest(16, most)
        for update skip locked);
    if lines = '{}' then
        return;
    end if;
    names := array(
        select distinct name
        from unnest(lines) as line cross join unnest(string_to_array(line.buckets, E'\n')) as name
        order by name);
    loop
        insert into {{schema}}.bucket (name, touched_at) select name, now from unnest(names) as name
        on conflict do nothing;
        select array_agg(locked.room order by locked.name) into rooms
        from (
            select bucket.name, {{schema}}.room_of(bucket, rule, now) as room
            from {{schema}}.bucket
            left join {{schema}}.limit_rule as rule on rule.name = split_part(bucket.name, ':', 1)
            where bucket.name = any (names)
            order by bucket.name
            for update of bucket
        ) as locked;
        exit when coalesce(cardinality(rooms), 0) = cardinality(names); -- an idle bucket may be forgotten in between
    end loop;
    used := array_fill(0::bigint, array[cardinality(names)]);
    parked := array_fill(false, array[cardinality(names)]);
    size := greatest(4, ceil(most::float8 / cardinality(lines)));
    foreach one in array lines loop
        if below is not null and one.priority = below and share is null then
            share := given + (most - given + 1) / 2;
        end if;
        exit when given >= coalesce(share, most);
        parts := string_to_array(one.buckets, E'\n');
        room := least(size, coalesce(share, most) - given);
        for n in 1 .. cardinality(parts) loop
            place := array_position(names, parts[n]);
            room := least(room, rooms[place]);
            if room <= 0 then
                parked[place] := true;
                update {{schema}}.line set parked_at = parts[n]
                where queue = one.queue and priority = one.priority and task = one.task
                and buckets = one.buckets;
                exit;
            end if;
        end loop;
        continue when room <= 0;
        with picked as materialized (
            select ctid from {{schema}}.ready
            where limited and queue = one.queue and priority = one.priority and task = one.task
            and buckets = one.buckets
            order by seq limit room
            for update skip locked
        ),
        taken as (
            delete from {{schema}}.ready where ctid = any (array(select ctid from picked))
            returning *
        ),
        numbered as materialized (
            select *, given + row_number() over (order by seq) > free as ahead from taken
        ),
        leased as (
            insert into {{schema}}.lease (job_id, queue, priority, seq, task, attempts, crashes, fence,
                worker_id, batch, since, claimed_at, timeout_at, ahead, ties, buckets)
            select job_id, queue, priority, seq, task, attempts, crashes, fence + 1, worker, number, since, now,
                now + (select timeout from {{schema}}.job where job.id = numbered.job_id) * interval '1 second',
                ahead, ties, buckets
            from numbered
        )
        select coalesce(array_agg(job_id order by seq), '{}') into got from numbered;
        if cardinality(got) < room and not exists (
            select from {{schema}}.ready
            where limited and queue = one.queue and priority = one.priority and task = one.task
            and buckets = one.buckets
        ) then
            delete from {{schema}}.line
            where queue = one.queue and priority = one.priority and task = one.task
            and buckets = one.buckets;
        else
            update {{schema}}.line set turn = nextval('{{schema}}.line_turn')
            where queue = one.queue and priority = one.priority and task = one.task
            and buckets = one.buckets;
        end if;
        given := given + cardinality(got);
        for n in 1 .. cardinality(parts) loop
            place := array_position(names, parts[n]);
            rooms[place] := rooms[place] - cardinality(got);
            used[place] := used[place] + cardinality(got);
        end loop;
        all_given := all_given || got;
    end loop;
    update {{schema}}.bucket set in_use = in_use + taken.jobs, touched_at = now
    from unnest(names, used) as taken (name, jobs)
    where bucket.name = taken.name and taken.jobs > 0;
    update {{schema}}.bucket
    set has_waiting = true, opens_at = {{schema}}.opening_of(bucket, rule, now)
    from unnest(names, parked) as shut (name, parked)
    left join {{schema}}.limit_rule as rule on rule.name = split_part(shut.name, ':', 1)
    where bucket.name = shut.name and (shut.parked or bucket.has_waiting);
    return query
        select lease.job_id, lease.task, lease.queue, lease.priority, job.args, job.policy, lease.attempts,
            lease.crashes, lease.fence, job.created_at, lease.since, job.deadline_at, job.tags, job.headers,
            (select progress.checkpoint from {{schema}}.progress where progress.job_id = lease.job_id),
            lease.ahead, lease.ties, lease.seq
        from unnest(all_given) with ordinality as given_job (id, n)
        join {{schema}}.lease on lease.job_id = given_job.id
        join {{schema}}.job on job.id = given_job.id
        order by given_job.n;
end $$;
