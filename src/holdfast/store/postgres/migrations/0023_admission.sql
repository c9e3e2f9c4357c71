-- Who of the jobs with limits may begin, and what their ends give back.
--
-- Locks are taken in one order: lines, without waiting; then ready jobs, without waiting; then buckets, by name.
-- Who ends leases holds those first and then locks buckets by name, and never a line. So nobody waits in a circle.
-- Every statement of these functions has a snapshot of its own, and sees what is true of the rows that were locked
-- before it (READ COMMITTED). The settings of the planner: all these tables are reached by an index, however small
-- they are when a plan is made. A plan that cannot do without what is switched off there seems so dear that the server
-- would compile it, which takes seconds. Connections through a pooler do not switch that off, so the functions do.


-- The arithmetic of buckets is that of `holdfast.limits.admission`; times are microseconds. ------------------------

create function {{schema}}.micros(at timestamptz) returns bigint language sql immutable as $$
    select (extract(epoch from at) * 1000000)::bigint
$$;

create function {{schema}}.moment(micros bigint) returns timestamptz language sql immutable as $$
    select 'epoch'::timestamptz + micros * interval '1 microsecond'
$$;

-- The first moment of a day. A midnight that comes twice begins the day the first time.
create function {{schema}}.midnight(day timestamp, zone text) returns timestamptz language sql stable as $$
    select case when (day at time zone zone - interval '1 hour') at time zone zone = day
        then day at time zone zone - interval '1 hour' else day at time zone zone end
$$;

-- The moment after `low`, and not after `high`, at which the clocks of a zone are moved; null if they are not.
create function {{schema}}.clock_change(low timestamptz, high timestamptz, zone text) returns timestamptz
language plpgsql stable as $$
declare
    moved interval := (high at time zone zone) - (high at time zone 'UTC');
    middle timestamptz;
begin
    if (low at time zone zone) - (low at time zone 'UTC') = moved then
        return null;
    end if;
    while high - low > interval '1 microsecond' loop
        middle := low + (high - low) / 2;
        if (middle at time zone zone) - (middle at time zone 'UTC') = moved then
            high := middle;
        else
            low := middle;
        end if;
    end loop;
    return high;
end $$;

-- When the period of a budget began that this moment lies in, and when it ends (null: never by itself).
create function {{schema}}.period_of(settings jsonb, now timestamptz, out start bigint, out stop bigint)
language plpgsql stable as $$
declare
    every text := settings ->> 'every';
    zone text := settings ->> 'timezone';
    length bigint;
    here timestamp;
    began timestamptz;
    ends timestamptz;
begin
    if every is null then
        start := 0;
    elsif jsonb_typeof(settings -> 'every') = 'number' then
        length := round(every::numeric * 1000000);
        start := {{schema}}.micros(now) - {{schema}}.micros(now) % length;
        stop := start + length;
    else
        here := now at time zone zone;
        if every = 'hour' then
            began := now - (here - date_trunc('hour', here));
            ends := began + interval '1 hour';
            start := {{schema}}.micros(coalesce({{schema}}.clock_change(began, now, zone), began));
            stop := {{schema}}.micros(coalesce(
                {{schema}}.clock_change(now, ends - interval '1 microsecond', zone), ends
            ));
        else
            start := {{schema}}.micros({{schema}}.midnight(date_trunc(every, here), zone));
            stop := {{schema}}.micros({{schema}}.midnight(date_trunc(every, here) + ('1 ' || every)::interval, zone));
        end if;
    end if;
end $$;

-- A bucket with the books of its kind as they stand now: a new period has begun, slices have left the window, the
-- meter has run down.
create function {{schema}}.caught_up(bucket {{schema}}.bucket, settings jsonb, now timestamptz)
returns {{schema}}.bucket language plpgsql stable as $$
declare
    at bigint := {{schema}}.micros(now);
    per bigint;
    most bigint;
    length bigint;
    began bigint;
begin
    if settings ->> 'kind' = 'budget' then
        began := ({{schema}}.period_of(settings, now)).start;
        if bucket.since < began then -- not if the clock was set back
            bucket.spent := 0;
            bucket.alarms := 0;
            bucket.since := began;
        end if;
    elsif settings ->> 'kind' = 'rate' then
        most := (settings ->> 'most')::bigint;
        per := round((settings ->> 'per')::numeric * 1000000);
        if settings ->> 'burst' is null then
            length := (per + 63) / 64;
            select coalesce(array_agg(counted.slice order by counted.slice), '{}'),
                coalesce(array_agg(counted.units order by counted.slice), '{}')
            into bucket.slices, bucket.units
            from (
                select moved.slice, sum(moved.units)::bigint as units
                from (
                    select case when bucket.scale = length then kept.slice
                        else least(at / length, ((kept.slice + 1) * bucket.scale - 1) / length) end as slice,
                        kept.units
                    from unnest(bucket.slices, bucket.units) as kept (slice, units)
                ) as moved
                where moved.slice >= at / length - 64 and moved.units > 0
                group by moved.slice
            ) as counted;
            bucket.scale := length;
            bucket.spent := 0; -- what a meter counted would later be read by this scale
        else
            length := per / gcd(most, per); -- the parts of a permit
            if bucket.scale not in (0, length) then
                bucket.spent := ceil(bucket.spent::numeric * length / bucket.scale);
            end if;
            bucket.spent := greatest(0, bucket.spent::numeric
                - (most / gcd(most, per))::numeric * greatest(0, at - bucket.since));
            bucket.scale := length;
            bucket.since := greatest(bucket.since, at); -- no time drains a meter twice
            bucket.slices := '{}';
            bucket.units := '{}';
        end if;
    end if;
    return bucket;
end $$;

-- The largest cost that can ever pass: in this period, of a budget that was topped up.
create function {{schema}}.largest_of(bucket {{schema}}.bucket, rule {{schema}}.limit_rule, now timestamptz)
returns bigint language sql stable as $$
    select case when rule.name is null or rule.retired then 9007199254740991
        else (
            select case
                when settings ->> 'kind' = 'budget' then (settings ->> 'hard')::bigint - case
                    when bucket.spent < 0 and bucket.since >= ({{schema}}.period_of(settings, now)).start
                    then bucket.spent else 0 end
                when (settings ->> 'most')::bigint = 0 then 0
                else coalesce((settings ->> 'burst')::bigint, (settings ->> 'most')::bigint) end
            from coalesce(bucket.override, rule.settings) as settings) end
$$;

-- How much of a rate or a budget is free.
create function {{schema}}.left_of(bucket {{schema}}.bucket, settings jsonb, now timestamptz)
returns bigint language plpgsql stable as $$
begin
    bucket := {{schema}}.caught_up(bucket, settings, now);
    if settings ->> 'kind' = 'budget' then
        return greatest(0, (settings ->> 'hard')::bigint - bucket.spent - coalesce(bucket.in_use, 0));
    elsif settings ->> 'burst' is null then
        return greatest(0, (settings ->> 'most')::bigint
            - (select coalesce(sum(units), 0) from unnest(bucket.units) as units));
    end if;
    return greatest(0, (case when (settings ->> 'most')::bigint = 0 then 0 else (settings ->> 'burst')::bigint end
        * bucket.scale - bucket.spent) / bucket.scale);
end $$;

-- How much is not taken.
create function {{schema}}.free_of(bucket {{schema}}.bucket, rule {{schema}}.limit_rule, now timestamptz)
returns bigint language sql stable as $$
    select case
        when rule.retired then 9007199254740991
        when rule.name is null or bucket.shut_until > now then 0
        when coalesce(bucket.override, rule.settings) ->> 'kind' = 'concurrency'
            then greatest(0, (coalesce(bucket.override, rule.settings) ->> 'most')::bigint
                - coalesce(bucket.in_use, 0))
        else {{schema}}.left_of(bucket, coalesce(bucket.override, rule.settings), now)
        end
$$;

-- When so much will be free; null where time alone does not bring it.
create function {{schema}}.opens_at_of(bucket {{schema}}.bucket, rule {{schema}}.limit_rule, cost bigint,
    now timestamptz)
returns timestamptz language plpgsql stable as $$
declare
    settings jsonb := coalesce(bucket.override, rule.settings);
    opens timestamptz := now;
    most bigint;
    growth bigint;
    over numeric;
    slice bigint;
    counted bigint;
begin
    if {{schema}}.free_of(bucket, rule, now) >= cost
        and (cost > 0 or rule.retired or (bucket.shut_until > now) is not true)
    then
        return now;
    elsif cost = 0 then
        return bucket.shut_until;
    elsif cost is null or rule.name is null or cost > {{schema}}.largest_of(bucket, rule, now) then
        return null;
    end if;
    most := (settings ->> 'most')::bigint;
    bucket := {{schema}}.caught_up(bucket, settings, now);
    if settings ->> 'kind' = 'concurrency' then
        if most - bucket.in_use < cost then
            return null;
        end if;
    elsif settings ->> 'kind' = 'budget' then
        if (settings ->> 'hard')::bigint - bucket.spent - bucket.in_use < cost then
            opens := {{schema}}.moment(({{schema}}.period_of(settings, now)).stop);
        end if;
    elsif settings ->> 'burst' is null then
        over := (select coalesce(sum(units), 0) from unnest(bucket.units) as units) + cost - most;
        for slice, counted in
            select kept.slice, kept.units from unnest(bucket.slices, bucket.units) as kept (slice, units)
            order by kept.slice
        loop
            exit when over <= 0;
            over := over - counted;
            opens := {{schema}}.moment((slice + 65) * bucket.scale);
        end loop;
    else
        growth := most * bucket.scale / round((settings ->> 'per')::numeric * 1000000);
        over := bucket.spent + (cost - (settings ->> 'burst')::bigint)::numeric * bucket.scale;
        opens := now + greatest(0, ceil(over / growth))::bigint * interval '1 microsecond';
    end if;
    return greatest(opens, bucket.shut_until); -- null is no drain
end $$;

-- Note what is to be told of a budget: 1 soft amount reached, 2 overrun; 4 and 8 that it was told; 16 it was passed
-- otherwise than on the way to another bucket.
create function {{schema}}.noticed(bucket {{schema}}.bucket, settings jsonb) returns {{schema}}.bucket
language plpgsql immutable as $$
begin
    if settings ->> 'kind' is distinct from 'budget' or bucket.override is null and bucket.alarms & 16 = 0 then
        return bucket;
    end if;
    if bucket.spent + bucket.in_use >= (settings ->> 'soft')::bigint and bucket.alarms & 5 = 0 then
        bucket.alarms := bucket.alarms | 1;
    end if;
    if bucket.spent > (settings ->> 'hard')::bigint and bucket.alarms & 10 = 0 then
        bucket.alarms := bucket.alarms | 2;
    end if;
    return bucket;
end $$;

-- A rate or a budget after so much was taken. `alone`: also by a job for which it is no step of a path.
create function {{schema}}.charged(bucket {{schema}}.bucket, settings jsonb, cost bigint, alone boolean,
    now timestamptz)
returns {{schema}}.bucket language plpgsql stable as $$
declare
    newest bigint;
    place int;
begin
    bucket := {{schema}}.caught_up(bucket, settings, now);
    bucket.in_use := bucket.in_use + cost;
    if settings ->> 'kind' = 'rate' then
        if settings ->> 'burst' is not null then
            bucket.spent := bucket.spent + cost * bucket.scale;
        else
            newest := {{schema}}.micros(now) / bucket.scale;
            -- mostly the last one, but who waited for the bucket has an older time
            place := array_position(bucket.slices, newest);
            if place is not null then
                bucket.units[place] := bucket.units[place] + cost;
            else
                bucket.slices := bucket.slices || newest;
                bucket.units := bucket.units || cost;
            end if;
        end if;
    elsif alone and settings ->> 'kind' = 'budget' then
        bucket.alarms := bucket.alarms | 16;
    end if;
    return {{schema}}.noticed(bucket, settings);
end $$;

-- A rate after an attempt gave back what it took at a moment and did not use. What has come back by itself since then
-- is not given back again.
create function {{schema}}.untaken(bucket {{schema}}.bucket, settings jsonb, cost bigint, taken_at timestamptz,
    now timestamptz)
returns {{schema}}.bucket language plpgsql stable as $$
declare
    back bigint;
    place int;
    growth bigint;
begin
    bucket := {{schema}}.caught_up(bucket, settings, now);
    if settings ->> 'kind' is distinct from 'rate' then
        return bucket;
    end if;
    if settings ->> 'burst' is not null then
        growth := (settings ->> 'most')::bigint * bucket.scale / round((settings ->> 'per')::numeric * 1000000);
        bucket.spent := bucket.spent - least(bucket.spent, greatest(0, cost::numeric * bucket.scale
            - growth::numeric * greatest(0, {{schema}}.micros(now) - {{schema}}.micros(taken_at))))::bigint;
        return bucket;
    end if;
    for place in -- the slice in which it was counted, then the oldest, never a later one
        select array_position(bucket.slices, slice) from unnest(bucket.slices) as slice
        where slice <= {{schema}}.micros(taken_at) / bucket.scale
        order by slice <> {{schema}}.micros(taken_at) / bucket.scale, slice
    loop
        back := least(cost, bucket.units[place]);
        bucket.units[place] := bucket.units[place] - back;
        cost := cost - back;
    end loop;
    return bucket;
end $$;

-- The rule that counts for a bucket: that of its limit, or of the total of a queue, which has a rule of its own.
create function {{schema}}.limit_of(bucket text) returns text language sql immutable as $$
    select case when starts_with(bucket, 'queue:') then bucket else split_part(bucket, ':', 1) end
$$;

-- The buckets of a line without its labels and its key of fairness.
create function {{schema}}.buckets_of(line text) returns text language sql immutable as $$
    select coalesce(string_agg(part.name, E'\n' order by part.place), '')
    from string_to_table(line, E'\n') with ordinality as part (name, place)
    where left(part.name, 1) not in ('+', '=', '!')
$$;

create function {{schema}}.labels_of(line text) returns text[] language sql immutable as $$
    select coalesce(array_agg(substr(name, 2)), '{}') from string_to_table(line, E'\n') as name
    where starts_with(name, '+')
$$;

create function {{schema}}.fair_of(line text) returns text language sql immutable as $$
    select substr(name, 2) from string_to_table(line, E'\n') as name where starts_with(name, '=')
$$;

-- Lines -----------------------------------------------------------------------------------------------------------

-- Jobs that cost more than a bucket ever lets pass stand aside: in a line whose text ends with `!` and their costs.
alter table {{schema}}.line add column aside boolean not null generated always as (strpos(buckets, E'\n!') > 0) stored;

-- A job that leaves its line in another way than by a claim may have been what others wait behind, or the last one of
-- a line that is parked. One row for each transaction and line, as for those who come.
create or replace function {{schema}}.leave() returns trigger language plpgsql as $$
begin
    insert into {{schema}}.newcomer (queue, priority, task, buckets, again)
    select old.queue, old.priority, old.task, old.buckets, true
    where not exists (
        select from {{schema}}.newcomer
        where newcomer.by = txid_current() and newcomer.queue = old.queue and newcomer.priority = old.priority
        and newcomer.task = old.task and newcomer.buckets = old.buckets and newcomer.again);
    return null;
end $$;
drop trigger leave on {{schema}}.ready_limited;
drop trigger leave_anew on {{schema}}.ready_limited;
create trigger leave after delete on {{schema}}.ready_limited for each row
when (current_setting('holdfast.claims', true) is distinct from 'yes') execute function {{schema}}.leave();
create trigger leave_anew after update of queue, priority on {{schema}}.ready_limited for each row
execute function {{schema}}.leave();
create index newcomer_again on {{schema}}.newcomer (n) where again;

-- Whether jobs stand in a line. One whose last job was cancelled is there until a claim hears of it.
create function {{schema}}.has_jobs(line {{schema}}.line) returns boolean language sql stable as $$
    select exists (
        select from {{schema}}.ready_limited as ready
        where ready.queue = line.queue and ready.priority = line.priority and ready.task = line.task
        and ready.buckets = line.buckets)
$$;

-- What a parked line needs to go on, where the bucket never lets more than so much pass. Null: it stands aside, or the
-- limit lets nothing pass at all. A line whose first job can not pass since the limit was lowered needs nothing: the
-- claim that looks at it lets that job stand aside.
create function {{schema}}.need_of(needs bigint, aside boolean, largest bigint) returns bigint language sql immutable as $$
    select case when needs <= largest then needs when not aside and largest > 0 then 0 end
$$;

-- Whether lines are parked at these buckets, which are locked, and when to look at them again.
create function {{schema}}.look_at_waiting(names text[], now timestamptz) returns void
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
begin
    update {{schema}}.bucket set has_waiting = seen.waits, opens_at = seen.opens_at
    from (
        select bucket.name, exists (select from {{schema}}.line where parked_at = bucket.name) as waits,
            {{schema}}.opens_at_of(bucket, rule, first.needs, now) as opens_at
        from {{schema}}.bucket
        left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(bucket.name)
        left join lateral (
            select {{schema}}.need_of(line.needs, line.aside, largest) as needs
            from {{schema}}.line, {{schema}}.largest_of(bucket, rule, now) as largest
            where line.parked_at = bucket.name and (line.needs <= largest or not line.aside and largest > 0)
            order by line.priority, line.turn, line.n limit 1
        ) as first on true
        where bucket.name = any (names)
    ) as seen
    where bucket.name = seen.name;
end $$;

-- Open the lines that jobs came to, those of any queue that jobs have left, and those at buckets with room, in their
-- order, as far as there is room for the first job of each. A claim locks lines without waiting, so it never waits for this in a circle.
--
-- No bucket is locked here, because the caller has yet to lock others by name. So the room is a guess: a line that
-- meets a bucket without room is parked again. The answer names the buckets at which other lines wait now than before.
-- `left_at`: the caller has to look at them (`look_at_waiting`), because nobody else will. `opened`: it may leave those
-- to others that are locked, because the next claim hears of them again.
create function {{schema}}.hear(wanted text, now timestamptz, out left_at text[], out opened text[])
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
declare
    shut record;
    head tid;
begin
    with heard as (
        delete from {{schema}}.newcomer
        where n = any (array(
            select n from {{schema}}.newcomer
            where queue = wanted order by n limit 5000 for update skip locked) || array(
            select n from {{schema}}.newcomer
            where again order by n limit 5000 for update skip locked))
        returning n, queue, priority, task, buckets, again, weight
    ),
    came as materialized (
        select queue, priority, task, buckets, bool_or(again) as again, min(n) as n,
            (array_agg(weight order by n desc) filter (where weight is not null))[1] as weight,
            -- a look at the text is a tenth of a call
            case when strpos(buckets, '=') > 0 then {{schema}}.fair_of(buckets) end as fair,
            case when strpos(buckets, '+') > 0 then {{schema}}.labels_of(buckets) else '{}' end as labels
        from heard group by queue, priority, task, buckets
    ),
    parked as materialized (
        -- the limit keeps it a lookup: a plan that was made for few lines would read all of them
        select waiting.parked_at from came
        cross join lateral (
            select line.parked_at from {{schema}}.line
            where line.queue = came.queue and line.priority = came.priority and line.task = came.task
            and line.buckets = came.buckets and line.parked_at is not null
            limit 1
        ) as waiting
        where came.again
    ),
    opened as (
        insert into {{schema}}.line as known
            (queue, priority, task, buckets, n, fair, labels, weight, turn)
        select came.queue, came.priority, came.task, came.buckets, came.n, came.fair, came.labels,
            coalesce((select said.weight from {{schema}}.weight as said where said.fair = came.fair), came.weight, 1),
            coalesce((
                select turn.turn from {{schema}}.turn
                where turn.queue = came.queue and turn.priority = came.priority), 0)
        from came
        where not came.again or exists (
            select from {{schema}}.line
            where line.queue = came.queue and line.priority = came.priority and line.task = came.task
            and line.buckets = came.buckets
        ) or exists (
            select from {{schema}}.ready_limited as ready
            where ready.queue = came.queue and ready.priority = came.priority and ready.task = came.task
            and ready.buckets = came.buckets)
        order by came.queue, came.priority, came.task, came.buckets
        -- waits for a claim that may be about to remove the line
        on conflict (queue, priority, task, buckets) do update
        set weight = excluded.weight, parked_at = case
            when not (select bool_or(came.again) from came) then known.parked_at
            when (select again from came where came.queue = known.queue and came.priority = known.priority
                and came.task = known.task and came.buckets = known.buckets) then null
            else known.parked_at end
    )
    select array_agg(distinct parked_at order by parked_at) into left_at from parked;
    left_at := coalesce(left_at, '{}');
    opened := '{}';

    for shut in
        select bucket.name, {{schema}}.free_of(bucket, rule, now) as free,
            {{schema}}.largest_of(bucket, rule, now) as largest
        from {{schema}}.bucket
        left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(bucket.name)
        where bucket.has_waiting and bucket.opens_at <= now
        order by bucket.opens_at limit 100
    loop
        head := (
            select line.ctid from {{schema}}.line where line.parked_at = shut.name
            order by line.priority, line.turn, line.n limit 1);
        perform from {{schema}}.line where line.ctid = head and line.parked_at = shut.name for update skip locked;
        if head is not null and not found then
            continue; -- another claim is about to open the lines of this bucket
        end if;
        opened := opened || shut.name;
        update {{schema}}.line set parked_at = null
        where line.ctid = any (array(
            select fitting.at
            from (
                select first.at, sum(first.needs) over (order by first.priority, first.turn, first.n) as needs
                from (
                    select line.ctid as at, {{schema}}.need_of(line.needs, line.aside, shut.largest) as needs,
                        line.priority, line.turn, line.n
                    from {{schema}}.line
                    where line.parked_at = shut.name
                    and (line.needs <= shut.largest or not line.aside and shut.largest > 0)
                    order by line.priority, line.turn, line.n limit greatest(1, least(shut.free, 1000))
                    for update skip locked
                ) as first
            ) as fitting
            where fitting.needs <= shut.free));
    end loop;
end $$;

-- Look at the buckets that `hear` named. `opened` are locked without waiting, so whoever holds others may call this.
create function {{schema}}.look_at_heard(left_at text[], opened text[], now timestamptz) returns void
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
begin
    perform {{schema}}.look_at_waiting(left_at || array(
        select bucket.name from {{schema}}.bucket
        where bucket.name = any (opened) and bucket.name <> all (left_at)
        for update skip locked), now);
end $$;

-- Give jobs with limits of one queue to a worker: one turn of the lines, as far as all their buckets have room.
-- `look`: how many jobs to look at. `needed`: only lines that need at least these labels. `below`: only lines of a better priority, and at this one at most half of what is
-- left. `level`: only lines of this priority. A line gives its jobs in order of arrival. At the first that has to wait it stops, and is parked at the bucket
-- that has no room. A last row without a job says that others may begin after those that have to wait or had no job.
create function {{schema}}.admit(worker uuid, number bigint, tasks text[], wanted text, most int, look int, free int,
    below int, level int, labels text[], needed text[], channel text, now timestamptz)
returns table (job_id text, task text, queue text, priority int, args text, policy text, attempts int,
    crashes int, fence bigint, created_at float8, ready_at float8, claimed_at float8, deadline_at timestamptz,
    tags text[], headers text, checkpoint text, ahead boolean, ties smallint, seq bigint)
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off
-- lines are read in the order of their index, and no further than is asked for
set enable_sort = off set enable_incremental_sort = off as $$
#variable_conflict use_column
declare
    weights float8; -- of the lines that share what is wanted
    -- the first jobs of the lines, one line after the other: where they are, of which line, and what they cost
    jobs tid[];
    line_of int[];
    costs text[];
    has_empty boolean;
    -- the lines in the order of their turns: what they are, how many jobs they have here, how many of those begin,
    -- where the line has to wait, and what for
    lines tid[];
    line_priorities int[];
    line_turns bigint[];
    line_numbers bigint[];
    line_weights int[];
    line_fairs text[];
    sizes float8[];
    had_turns text[] := '{}'; -- keys of fairness: each has one turn
    has_kin boolean;
    line_tasks text[];
    line_buckets text[];
    heads int[];
    begins int[];
    waits_at text[];
    waits_for bigint[];
    -- the buckets by name; `open_path`: it holds nothing up on the way to another. Who waits there first, and for what
    names text[];
    missing text[];
    rooms bigint[];
    open_path boolean[];
    has_books boolean;
    anybody_waits boolean;
    first_needs bigint[];
    first_priority int[];
    first_turn bigint[];
    first_number bigint[];
    largest bigint[];
    used bigint[];
    alone boolean[];
    -- which line passes which buckets, one line after the other
    passing_line int[];
    passing_name text[];
    passing_path boolean[];
    passing_place int[];
    given tid[];
    at_level int;
    first_passing int := 1;
    total text; -- the bucket of the whole queue, if it has a total
    last_passing int;
    job int := 0;
    cost bigint[];
    unit bigint;
    place int;
    lacking int;
    too_big boolean; -- the job costs more than the bucket ever lets pass
    aside tid[] := '{}'; -- jobs that leave their line to stand aside
    -- the buckets at which other lines wait since this claim has heard the news
    left_at text[] := '{}';
    opened text[] := '{}';
begin
    if exists (select from {{schema}}.newcomer where newcomer.queue = wanted)
        or exists (select from {{schema}}.newcomer where again)
        or exists (select from {{schema}}.bucket where has_waiting and opens_at <= now)
    then
        select heard.left_at, heard.opened into left_at, opened from {{schema}}.hear(wanted, now) as heard;
    end if;
    select greatest(sum(open.weight), 1) into weights
    from (
        select line.weight from {{schema}}.line
        where line.queue = wanted and parked_at is null and line.task = any (tasks) and line.labels <@ admit.labels
        and (admit.needed = '{}' or line.labels @> admit.needed)
        and (below is null or line.priority <= below) and (admit.level is null or line.priority = admit.level)
        limit most / 4 + 1
    ) as open;

    -- the limit stops reading, and so locking, as soon as there are enough jobs
    select array_agg(picked.ctid) filter (where picked.ctid is not null),
        array_agg(picked.line) filter (where picked.ctid is not null),
        array_agg(picked.costs) filter (where picked.ctid is not null), bool_or(picked.ctid is null),
        array_agg(picked.at) filter (where picked.n is null or picked.n = 1),
        array_agg(picked.level) filter (where picked.n is null or picked.n = 1),
        array_agg(picked.turn) filter (where picked.n is null or picked.n = 1),
        array_agg(picked.number) filter (where picked.n is null or picked.n = 1),
        array_agg(picked.weight) filter (where picked.n is null or picked.n = 1),
        array_agg(picked.fair) filter (where picked.n is null or picked.n = 1),
        array_agg(picked.size) filter (where picked.n is null or picked.n = 1),
        array_agg(picked.kind) filter (where picked.n is null or picked.n = 1),
        array_agg(picked.text) filter (where picked.n is null or picked.n = 1)
    into jobs, line_of, costs, has_empty, lines, line_priorities, line_turns, line_numbers, line_weights,
        line_fairs, sizes, line_tasks, line_buckets
    from (
        select turn.line, turn.at, turn.level, turn.turn, turn.number, turn.weight, turn.fair, turn.size, turn.kind, turn.text,
            head.ctid, head.costs, head.n
        from (
            select row_number() over () as line, at, level, turn, number, weight, fair, kind, text,
                least(look, greatest(4, ceil(most * weight / weights))) as size -- how many jobs it gives at most
            from (
                select line.ctid as at, line.priority as level, line.turn, line.n as number, line.weight, line.fair,
                    line.task as kind,
                    line.buckets as text
                from {{schema}}.line
                where line.queue = wanted and parked_at is null and line.task = any (tasks) and line.labels <@ admit.labels
        and (admit.needed = '{}' or line.labels @> admit.needed)
                and (below is null or line.priority <= below) and (admit.level is null or line.priority = admit.level)
                order by line.priority, line.turn, line.n limit look
                for update skip locked
            ) as locked
        ) as turn
        left join lateral (
            select first.ctid, first.costs, row_number() over () as n
            from (
                select ready.ctid, ready.costs from {{schema}}.ready_limited as ready
                where ready.queue = wanted and ready.priority = turn.level and ready.task = turn.kind
                and ready.buckets = turn.text
                order by ready.seq limit turn.size
                for update skip locked
            ) as first
        ) as head on true
        limit look
    ) as picked;
    if line_buckets is null then
        perform from {{schema}}.bucket where bucket.name = any (left_at) order by bucket.name for update;
        perform {{schema}}.look_at_heard(left_at, opened, now);
        return;
    end if;
    if below is not null and jobs is not null then
        -- of the priority that jobs without limits wait at, half of what is left
        select count(*) filter (where line_priorities[line] < below) into at_level from unnest(line_of) as line;
        at_level := at_level + (most - at_level + 1) / 2;
        jobs := jobs[:at_level];
        line_of := line_of[:at_level];
    end if;
    select rule.name into total from {{schema}}.limit_rule as rule
    where rule.name = 'queue:' || wanted and not rule.retired;
    heads := array_fill(0, array[cardinality(line_buckets)]);
    for one in 1 .. coalesce(cardinality(line_of), 0) loop
        heads[line_of[one]] := heads[line_of[one]] + 1;
    end loop;
    begins := heads;
    waits_at := array_fill(null::text, array[cardinality(line_buckets)]);
    waits_for := array_fill(1::bigint, array[cardinality(line_buckets)]);

    select array_agg(passed.line order by passed.line, passed.place),
        array_agg(passed.name order by passed.line, passed.place),
        array_agg(coalesce(starts_with(passed.next, passed.name || '/'), false) order by passed.line, passed.place)
    into passing_line, passing_name, passing_path
    from (
        select one.line::int, part.name, part.place,
            lead(part.name) over (partition by one.line order by part.place) as next
        from unnest(line_buckets) with ordinality as one (text, line)
        cross join lateral (
            select listed.name, listed.place
            from string_to_table(one.text, E'\n') with ordinality as listed (name, place)
            where left(listed.name, 1) not in ('', '+', '=', '!')
            union all
            select total, 1000 where total is not null
        ) as part
    ) as passed;
    names := array(select distinct name collate "C" as name from unnest(passing_name) as name order by name);
    missing := array(
        select name from unnest(names) as name
        where not exists (select from {{schema}}.bucket where bucket.name = name.name)
        order by name);
    loop
        if missing <> '{}' then
            insert into {{schema}}.bucket (name, touched_at) select name, now from unnest(missing) as name
            on conflict do nothing;
        end if;
        if left_at <> '{}' then -- together with the others, because all are locked in one order
            perform from {{schema}}.bucket where bucket.name = any (names || left_at) order by bucket.name for update;
        end if;
        select array_agg(locked.room), array_agg(locked.open_path), bool_or(locked.has_books),
            bool_or(locked.has_waiting)
        into rooms, open_path, has_books, anybody_waits
        from (
            select bucket.has_waiting and exists (select from {{schema}}.line where line.parked_at = bucket.name)
                as has_waiting, {{schema}}.free_of(bucket, rule, now) as room,
                bucket.override is null and not rule.retired and (bucket.shut_until > now) is not true as open_path,
                not rule.retired and rule.settings ->> 'kind' <> 'concurrency' as has_books
            from {{schema}}.bucket
            left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(bucket.name)
            where bucket.name = any (names)
            order by bucket.name
            for update of bucket
        ) as locked;
        exit when coalesce(cardinality(rooms), 0) = cardinality(names); -- an idle bucket may be forgotten in between
        missing := names;
    end loop;
    passing_place := array(select array_position(names, name) from unnest(passing_name) as name);
    select array_agg(needed.jobs order by needed.place), array_agg(needed.alone order by needed.place)
    into used, alone
    from (
        select passed.place, sum(heads[passed.line]) as jobs, bool_or(not passed.path) as alone
        from unnest(passing_line, passing_place, passing_path) as passed (line, place, path)
        group by passed.place
    ) as needed;
    given := coalesce(jobs, '{}');

    has_kin := exists (
        select from unnest(line_fairs) as fair where fair is not null group by fair having count(*) > 1);
    if cardinality(given) > most or anybody_waits or has_kin
        or exists (select from unnest(costs) as one where one <> '')
        or exists (
            select from unnest(rooms, used, alone, open_path) as bucket (room, used, alone, open_path)
            where used > room and (alone or not open_path is true))
    then
        -- not all may begin, or that is not said: as far as there is room, one line after the other. Who comes
        -- behind somebody who waits for more than is free takes nothing before him.
        used := array_fill(0::bigint, array[cardinality(names)]);
        given := '{}';
        select array_agg(first.needs order by bucket.name), array_agg(first.priority order by bucket.name),
            array_agg(first.turn order by bucket.name), array_agg(first.n order by bucket.name),
            array_agg({{schema}}.largest_of(bucket, rule, now) order by bucket.name)
        into first_needs, first_priority, first_turn, first_number, largest
        from {{schema}}.bucket
        left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(bucket.name)
        left join lateral (
            select {{schema}}.need_of(line.needs, line.aside, largest) as needs, line.priority, line.turn, line.n
            from {{schema}}.line, {{schema}}.largest_of(bucket, rule, now) as largest
            where bucket.has_waiting and line.parked_at = bucket.name
            and (line.needs <= largest or not line.aside and largest > 0)
            order by line.priority, line.turn, line.n limit 1
        ) as first on true
        where bucket.name = any (names);
        for line in 1 .. cardinality(line_buckets) loop
            last_passing := first_passing - 1;
            while passing_line[last_passing + 1] = line loop
                last_passing := last_passing + 1;
            end loop;
            begins[line] := 0;
            for one in 1 .. case when line_fairs[line] = any (had_turns) then 0
                else least(heads[line], most - cardinality(given)) end
            loop
                cost := case when costs[job + one] <> '' then string_to_array(costs[job + one], ',')::bigint[] end;
                lacking := null;
                too_big := false;
                for passing in first_passing .. case when cost is null then 0 else last_passing end loop
                    place := passing_place[passing];
                    unit := coalesce(cost[passing - first_passing + 1], 1);
                    too_big := unit > largest[place] and largest[place] > 0
                        and not (passing_path[passing] and open_path[place] is true);
                    if too_big then
                        lacking := place;
                        exit;
                    end if;
                end loop;
                if too_big and strpos(line_buckets[line], E'\n!') = 0 then
                    aside := aside || jobs[job + one];
                    continue;
                end if;
                for passing in first_passing .. case when too_big then 0 else last_passing end loop
                    place := passing_place[passing];
                    unit := coalesce(cost[passing - first_passing + 1], 1);
                    if not (passing_path[passing] and open_path[place] is true) and (
                        rooms[place] < unit
                        or first_needs[place] > rooms[place]
                            and (line_priorities[line], line_turns[line], line_numbers[line])
                                > (first_priority[place], first_turn[place], first_number[place]))
                    then
                        lacking := place;
                        exit;
                    end if;
                end loop;
                if lacking is not null then
                    waits_at[line] := names[lacking];
                    waits_for[line] := unit;
                    anybody_waits := true;
                    if unit <= largest[lacking] and (first_needs[lacking] is null
                        or (line_priorities[line], line_turns[line], line_numbers[line])
                            < (first_priority[lacking], first_turn[lacking], first_number[lacking]))
                    then
                        first_needs[lacking] := unit;
                        first_priority[lacking] := line_priorities[line];
                        first_turn[lacking] := line_turns[line];
                        first_number[lacking] := line_numbers[line];
                    end if;
                    exit;
                end if;
                for passing in first_passing .. last_passing loop
                    place := passing_place[passing];
                    unit := coalesce(cost[passing - first_passing + 1], 1);
                    rooms[place] := rooms[place] - unit;
                    used[place] := used[place] + unit;
                end loop;
                given := given || jobs[job + one];
                begins[line] := begins[line] + 1;
            end loop;
            if begins[line] > 0 and line_fairs[line] is not null then
                had_turns := had_turns || line_fairs[line];
            end if;
            job := job + heads[line];
            first_passing := last_passing + 1;
        end loop;
    end if;

    if aside <> '{}' then
        with moved as (
            update {{schema}}.ready_limited as ready set buckets = ready.buckets || E'\n!' || ready.costs
            where ctid = any (aside)
            returning ready.priority, ready.task, ready.buckets, ready.seq
        )
        insert into {{schema}}.newcomer (queue, priority, task, buckets)
        select wanted, priority, task, buckets from moved group by priority, task, buckets order by min(seq);
        perform pg_notify(channel, 'ready:' || wanted); -- the next claim serves what came behind them
    end if;
    if given <> '{}' then
        perform set_config('holdfast.claims', 'yes', true);
        return query
            with taken as (
                delete from {{schema}}.ready_limited as ready where ctid = any (given)
                returning ready.job_id, ready.priority, ready.seq, ready.task, ready.attempts, ready.crashes,
                    ready.fence, ready.ties, ready.since, ready.buckets, ready.costs
            ),
            found as materialized (
                select taken.*, body.args, body.policy, body.tags, body.headers, body.timeout, body.deadline_at,
                    body.created_at, row_number() over (order by taken.priority, taken.seq) > free as ahead
                from taken
                cross join lateral (
                    select args, policy, tags, headers, timeout, deadline_at, created_at
                    from {{schema}}.job where job.id = taken.job_id limit 1
                ) as body
            ),
            leased as (
                insert into {{schema}}.lease (job_id, queue, priority, seq, task, attempts, crashes, fence,
                    worker_id, batch, since, claimed_at, timeout_at, ahead, ties, buckets, costs)
                select job_id, wanted, priority, seq, task, attempts, crashes, fence + 1, worker, number, since,
                    now, now + timeout * interval '1 second', ahead, ties,
                    nullif(concat_ws(E'\n', nullif(case when buckets ~ '(^|\n)[+=!]'
                        then {{schema}}.buckets_of(buckets) else buckets end, ''), total), ''),
                    case when costs <> '' then concat_ws(',', costs, case when total is not null then '1' end) end
                from found
            ),
            counted as (
                insert into {{schema}}.move (at, queue, task, source, target, what, jobs)
                select now, wanted, task, 'ready', 'running', 'claimed', count(*) from found group by task
            )
            select found.job_id::text, found.task, wanted, found.priority, found.args, found.policy,
                found.attempts, found.crashes, found.fence + 1, date_part('epoch', found.created_at),
                date_part('epoch', found.since), date_part('epoch', now), found.deadline_at,
                case when cardinality(found.tags) > 0 then found.tags end, found.headers,
                case when found.fence > 0 then (
                    select progress.checkpoint from {{schema}}.progress where progress.job_id = found.job_id
                ) end, found.ahead, found.ties, found.seq
            from found
            order by found.priority, found.seq;
        perform {{schema}}.charge(channel, names, used, alone, has_books, now);
    end if;
    -- The lines are locked, so that they are where they were. A line without a job is removed; one that a job has
    -- come to since then has a newcomer.
    delete from {{schema}}.line
    where line.ctid = any (array(
        select gone.at
        from unnest(lines, line_priorities, line_tasks, line_buckets, sizes, heads, waits_at)
            as gone (at, level, kind, text, size, heads, waits_at)
        where gone.heads < gone.size and gone.waits_at is null
        and not exists (
            select from {{schema}}.ready_limited as ready
            where ready.queue = wanted and ready.priority = gone.level and ready.task = gone.kind
            and ready.buckets = gone.text)));
    if array_remove(line_fairs, null) <> '{}' then
        -- the other lines of the keys that were served have had their turns too, but for those of claims at work
        update {{schema}}.line set turn = turn + served.added
        from (
            select kin.fair, kin.level, sum(kin.jobs * 1000000::bigint / kin.weight)::bigint as added
            from unnest(line_fairs, line_priorities, begins, line_weights) as kin (fair, level, jobs, weight)
            where kin.jobs > 0 and kin.fair is not null
            group by kin.fair, kin.level
        ) as served
        where line.queue = wanted and line.fair = served.fair and line.priority = served.level
        and line.ctid = any (array(
            select kin.ctid from {{schema}}.line as kin
            where kin.queue = wanted and kin.fair = any (line_fairs) and kin.ctid <> all (lines)
            for update skip locked));
    end if;
    update {{schema}}.line
    set turn = case when served.added > 0 then served.added + greatest(turn, coalesce((
            select last.turn from {{schema}}.turn as last
            where last.queue = wanted and last.priority = line.priority), 0)) else turn end,
        parked_at = served.waits_at, needs = served.needs
    from (
        select one.at, one.waits_at, one.needs, sum(one.jobs * 1000000::bigint / one.weight)
            over (partition by coalesce('=' || one.fair, one.at::text), one.level)::bigint as added
        from unnest(lines, line_priorities, begins, line_weights, line_fairs, waits_at, waits_for)
            as one (at, level, jobs, weight, fair, waits_at, needs)
    ) as served
    where line.ctid = served.at and (served.added > 0 or served.waits_at is not null);
    perform {{schema}}.note_turns(wanted, line_priorities, line_turns, begins);
    if anybody_waits then
        update {{schema}}.bucket set has_waiting = true
        where name = any (array_remove(waits_at, null)) and not has_waiting;
        left_at := left_at || array(
            select bucket.name from {{schema}}.bucket where bucket.name = any (names) and bucket.has_waiting);
    end if;
    if left_at <> '{}' or opened <> '{}' then
        perform {{schema}}.look_at_heard(left_at, opened, now);
    end if;
    if cardinality(given) < most and (cardinality(array_remove(waits_at, null)) > 0 or has_empty or aside <> '{}'
        or has_kin and given <> '{}')
    then
        job_id := null;
        return next;
    end if;
end $$;

-- Count what begins, in buckets that are locked. `alone`: by jobs for which the bucket is no step of a path.
create function {{schema}}.charge(channel text, names text[], used bigint[], alone boolean[], has_books boolean,
    now timestamptz)
returns void language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
declare
    amounts jsonb := jsonb_object(names, used::text[]); -- by name
begin
    if has_books is not true then
        -- not joined: a plan that was made for few buckets would read all of them, and all names for each of them
        update {{schema}}.bucket set in_use = in_use + (amounts ->> name)::bigint, touched_at = now
        where name = any (names) and amounts ->> name <> '0';
        return;
    end if;
    update {{schema}}.bucket set in_use = after.in_use, touched_at = now, spent = after.spent, since = after.since,
        scale = after.scale, slices = after.slices, units = after.units, alarms = after.alarms
    from (
        select counted.*
        from unnest(names, used, alone) as taken (name, units, alone)
        join {{schema}}.bucket on bucket.name = taken.name
        left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(bucket.name)
        cross join lateral {{schema}}.charged(bucket,
            case when not rule.retired then coalesce(bucket.override, rule.settings) else '{}' end,
            taken.units::bigint, taken.alone, now) as counted
        where taken.units > 0
    ) as after
    where bucket.name = after.name;
    perform {{schema}}.ring(channel, names);
end $$;

-- Wake whoever tells of budgets, if one of these has something to tell.
create function {{schema}}.ring(channel text, names text[]) returns void language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
begin
    if exists (select from {{schema}}.bucket where name = any (names) and alarms & 3 <> 0) then
        perform pg_notify(channel, 'limits');
    end if;
end $$;

-- Remember which line was served last in each priority. Where another claim is about to do that, it is left to it.
create function {{schema}}.note_turns(wanted text, priorities int[], turns bigint[], begins int[])
returns void language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
declare
    level int;
    latest bigint;
begin
    for level, latest in
        select served.priority, max(served.turn) from unnest(priorities, turns, begins) as served (priority, turn, jobs)
        where served.jobs > 0 group by served.priority
    loop
        update {{schema}}.turn set turn = latest
        where turn.ctid = any (array(
            select turn.ctid from {{schema}}.turn
            where turn.queue = wanted and turn.priority = level and turn.turn < latest
            for update skip locked));
        if not found and not exists (
            select from {{schema}}.turn where turn.queue = wanted and turn.priority = level)
        then
            insert into {{schema}}.turn (queue, priority, turn) values (wanted, level, latest) on conflict do nothing;
        end if;
    end loop;
end $$;

-- Ends ------------------------------------------------------------------------------------------------------------

-- What an ended lease counted, what its attempt has reported to have spent by limit, and what becomes of the rest
-- (`holdfast.job.outcome.Settles`).
create type {{schema}}.receipt as (
    buckets text, costs text, reported jsonb, how text, claimed_at timestamptz
);

-- Give back what ended leases counted, in the statement that ends them. By name and never by ctid: a row that has
-- changed since a snapshot is locked in its new version, which a scan by ctid would not find. Wakes who waits, and
-- answers how many buckets there are.
create function {{schema}}.give_back(channel text, receipts {{schema}}.receipt[], now timestamptz) returns int
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
declare
    names text[];
    freed bigint[];
    returned jsonb; -- the same, by name
    waiting text[];
    has_books boolean;
    full_queues text[];
begin
    select array_agg(ended.name order by ended.name), array_agg(ended.units order by ended.name) into names, freed
    from (
        select part.name collate "C" as name,
            sum(coalesce((string_to_array(receipt.costs, ','))[part.place]::bigint, 1))::bigint as units
        from unnest(receipts) as receipt
        cross join lateral string_to_table(receipt.buckets, E'\n') with ordinality as part (name, place)
        group by part.name
    ) as ended;
    if names is null then
        return 0;
    end if;
    select bool_or(locked.has_books), array_agg(locked.name) filter (where locked.has_waiting),
        array_agg(substr(locked.name, 7)) filter (where locked.is_full)
    into has_books, waiting, full_queues
    from (
        select bucket.name, bucket.has_waiting,
            starts_with(bucket.name, 'queue:') and {{schema}}.free_of(bucket, rule, now) = 0 as is_full,
            not rule.retired and rule.settings ->> 'kind' <> 'concurrency' as has_books
        from {{schema}}.bucket
        left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(bucket.name)
        where bucket.name = any (names)
        order by bucket.name
        for update of bucket
    ) as locked;
    returned := jsonb_object(names, freed::text[]);
    -- not joined, for the reason that `charge` gives
    update {{schema}}.bucket set in_use = in_use - (returned ->> name)::bigint, touched_at = now
    where name = any (names);
    if has_books then
        perform {{schema}}.settle(receipts, now);
        perform {{schema}}.ring(channel, names);
    end if;
    if waiting is not null then
        perform {{schema}}.look_at_waiting(waiting, now);
        perform {{schema}}.wake_parked(channel, waiting, array(
            select ended.units from unnest(names, freed) as ended (name, units)
            where ended.name = any (waiting) order by ended.name));
    end if;
    if full_queues is not null then
        perform pg_notify(channel, 'ready:' || array_to_string(full_queues, ','));
    end if;
    return cardinality(names);
end $$;

-- Wake the workers of so many lines that are parked at each of these buckets, as the part `woken` does it.
create function {{schema}}.wake_parked(channel text, names text[], lines bigint[]) returns void
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
begin
    perform pg_notify(channel || case when few then '_few' else '' end,
        'ready:' || case when length(queues) < 2000 then queues else '' end
            || case when few then '=' || jobs else '' end)
    from (
        select string_agg(distinct parked.queue, ',') as queues, count(*) as jobs,
            count(*) <= 8 and min(parked.queue) = max(parked.queue) as few
        from unnest(names, lines) as opened (name, lines)
        cross join lateral (
            select queue from {{schema}}.line
            where parked_at = opened.name and {{schema}}.has_jobs(line)
            order by priority, turn, n limit least(opened.lines, 1000)
        ) as parked
    ) as told
    where jobs > 0;
end $$;

-- Correct when buckets are to be looked at that lines wait at: these, and those of these limits. Wakes where there is
-- room.
create function {{schema}}.look_again(channel text, names text[], limits text[], now timestamptz) returns void
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
declare
    waiting text[];
begin
    waiting := array(
        select bucket.name from {{schema}}.bucket
        where bucket.has_waiting
        and (bucket.name = any (names) or {{schema}}.limit_of(bucket.name) = any (limits))
        order by bucket.name
        for update);
    if waiting <> '{}' then
        perform {{schema}}.look_at_waiting(waiting, now);
        waiting := array(
            select bucket.name from {{schema}}.bucket where bucket.name = any (waiting) and bucket.opens_at <= now);
        perform {{schema}}.wake_parked(channel, waiting, array_fill(1000::bigint, array[cardinality(waiting)]));
    end if;
end $$;

-- The books of rates and budgets after these ends. The buckets are locked, and no longer count the leases.
create function {{schema}}.settle(receipts {{schema}}.receipt[], now timestamptz) returns void
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
declare
    one record;
begin
    for one in
        select ended.name, ended.settings, sum(ended.spent) as spent, bool_or(not ended.is_path) as alone
        from (
            select part.name, part.is_path, kept.settings, case
                when receipt.how = 'unbegun' then 0
                when receipt.reported ? {{schema}}.limit_of(part.name)
                    then (receipt.reported ->> {{schema}}.limit_of(part.name))::bigint
                when receipt.how = 'estimate'
                    or receipt.how = 'charge' and kept.settings ->> 'on_failure' = 'charge'
                    then coalesce((string_to_array(receipt.costs, ','))[part.place]::bigint, 1)
                else 0 end as spent
            from unnest(receipts) as receipt
            cross join lateral {{schema}}.parts_of(receipt.buckets) as part
            cross join lateral {{schema}}.settings_of(part.name) as kept (settings)
            where kept.settings ->> 'kind' = 'budget'
        ) as ended
        group by ended.name, ended.settings
    loop
        update {{schema}}.bucket
        -- no further than every store counts
        set spent = greatest(-9007199254740991, least(9007199254740991, after.spent + one.spent)), since = after.since, alarms = after.alarms
        from (
            select counted.spent, counted.since,
                case when one.alone then counted.alarms | 16 else counted.alarms end as alarms
            from {{schema}}.bucket
            cross join lateral {{schema}}.caught_up(bucket, one.settings, now) as counted
            where bucket.name = one.name
        ) as after
        where bucket.name = one.name;
        update {{schema}}.bucket set alarms = (
            select noticed.alarms from {{schema}}.noticed(bucket, one.settings) as noticed)
        where bucket.name = one.name;
    end loop;
    for one in
        select part.name, kept.settings, receipt.claimed_at,
            coalesce((string_to_array(receipt.costs, ','))[part.place]::bigint, 1) as cost
        from unnest(receipts) as receipt
        cross join lateral {{schema}}.parts_of(receipt.buckets) as part
        cross join lateral {{schema}}.settings_of(part.name) as kept (settings)
        where receipt.how = 'unbegun' and kept.settings ->> 'kind' = 'rate'
    loop
        update {{schema}}.bucket set spent = after.spent, since = after.since, scale = after.scale,
            slices = after.slices, units = after.units
        from (
            select counted.*
            from {{schema}}.bucket
            cross join lateral {{schema}}.untaken(bucket, one.settings, one.cost, one.claimed_at, now) as counted
            where bucket.name = one.name
        ) as after
        where bucket.name = one.name;
    end loop;
end $$;

-- The buckets of a receipt: where each stands, and whether it is a step of a path.
create function {{schema}}.parts_of(buckets text)
returns table (name text, place bigint, is_path boolean) language sql immutable as $$
    select part.name, part.place,
        coalesce(starts_with(lead(part.name) over (order by part.place), part.name || '/'), false)
    from string_to_table(buckets, E'\n') with ordinality as part (name, place)
$$;

-- The settings that count for a bucket; null where its limit is not in force.
create function {{schema}}.settings_of(bucket text) returns jsonb language sql stable as $$
    select coalesce((select known.override from {{schema}}.bucket as known where known.name = settings_of.bucket),
        rule.settings)
    from {{schema}}.limit_rule as rule
    where rule.name = {{schema}}.limit_of(settings_of.bucket) and not rule.retired
$$;
