-- What begins or is taken counts from the moment at which its buckets were locked, not from the moment at which the
-- statement came. A claim that had waited for a lock counted its starts too early in the window of a rate: they left it
-- sooner by the wait, and more began in a window than the rate lets pass. A time that the caller tells is kept.

-- As before, by that time.
create or replace function {{schema}}.admit(worker uuid, number bigint, tasks text[], wanted text, most int, look int, free int,
    below int, level int, labels text[], needed text[], channel text, now timestamptz,
    from_priorities int[] default '{-2147483648}', from_turns bigint[] default '{0}',
    from_numbers bigint[] default '{0}', to_priorities int[] default '{2147483647}')
returns table (job_id text, task text, queue text, priority int, args text, policy text, attempts int,
    crashes int, fence bigint, created_at float8, ready_at float8, claimed_at float8, deadline_at timestamptz,
    tags text[], headers text, checkpoint text, ahead boolean, ties smallint, seq bigint, first_turn bigint, first_line bigint)
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off
-- lines are read in the order of their index, and no further than is asked for
set enable_sort = off set enable_incremental_sort = off as $$
#variable_conflict use_column
declare
    -- the first open lines, which share what is wanted
    weights float8;
    open_priorities int[];
    open_turns bigint[];
    open_numbers bigint[];
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
    line_starts bigint[]; -- the numbers from which on they have jobs
    heads int[];
    begins int[];
    waits_at text[];
    waits_for bigint[];
    -- the buckets by name; `open_path`: it holds nothing up on the way to another. Who waits there first, and for what
    names text[];
    missing text[];
    places tid[]; -- where they are, since they are locked
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
    if left_at <> '{}' or opened <> '{}' then -- a line that goes on has an early turn
        from_priorities := '{-2147483648}';
        from_turns := '{0}';
        from_numbers := '{0}';
        to_priorities := '{2147483647}';
    end if;
    -- not locked: lines that other claims are about to serve are seen too, and come before those that this one serves
    select greatest(sum(open.weight), 1), array_agg(open.priority), array_agg(open.turn), array_agg(open.n)
    into weights, open_priorities, open_turns, open_numbers
    from (
        select head.*
        from unnest(from_priorities, from_turns, from_numbers, to_priorities) as stretch (priority, turn, n, until)
        cross join lateral (
            select line.weight, line.priority, line.turn, line.n from {{schema}}.line
            where line.queue = wanted and parked_at is null
            and (line.priority, line.turn, line.n) >= (stretch.priority, stretch.turn, stretch.n)
            and line.priority <= stretch.until
            and line.task = any (tasks) and line.labels <@ admit.labels
            and (admit.needed = '{}' or line.labels @> admit.needed)
            and (below is null or line.priority <= below) and (admit.level is null or line.priority = admit.level)
            order by line.priority, line.turn, line.n limit most / 4 + 1
        ) as head
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
        array_agg(picked.text) filter (where picked.n is null or picked.n = 1),
        array_agg(picked.from_seq) filter (where picked.n is null or picked.n = 1)
    into jobs, line_of, costs, has_empty, lines, line_priorities, line_turns, line_numbers, line_weights,
        line_fairs, sizes, line_tasks, line_buckets, line_starts
    from (
        select turn.line, turn.at, turn.level, turn.turn, turn.number, turn.weight, turn.fair, turn.size, turn.kind,
            turn.text, turn.from_seq, head.ctid, head.costs, head.n
        from (
            select row_number() over () as line, at, level, turn, number, weight, fair, kind, text, from_seq,
                least(look, greatest(4, ceil(most * weight / weights))) as size -- how many jobs it gives at most
            from (
                select opened.*
                from unnest(from_priorities, from_turns, from_numbers, to_priorities)
                    as stretch (priority, turn, n, until)
                cross join lateral (
                    select line.ctid as at, line.priority as level, line.turn, line.n as number, line.weight,
                        line.fair, line.task as kind, line.buckets as text, line.from_seq
                    from {{schema}}.line
                    where line.queue = wanted and parked_at is null
                    and (line.priority, line.turn, line.n) >= (stretch.priority, stretch.turn, stretch.n)
                    and line.priority <= stretch.until
                    and line.task = any (tasks) and line.labels <@ admit.labels
                    and (admit.needed = '{}' or line.labels @> admit.needed)
                    and (below is null or line.priority <= below)
                    and (admit.level is null or line.priority = admit.level)
                    order by line.priority, line.turn, line.n limit look
                    for update skip locked
                ) as opened
                limit look
            ) as locked
        ) as turn
        left join lateral (
            select first.ctid, first.costs, row_number() over () as n
            from (
                select ready.ctid, ready.costs from {{schema}}.ready_limited as ready
                where ready.queue = wanted and ready.priority = turn.level and ready.task = turn.kind
                and ready.buckets = turn.text and ready.seq >= turn.from_seq
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
        where (
            select true from {{schema}}.bucket
            where bucket.name between name.name and name.name order by bucket.name desc limit 1) is null
        order by name);
    loop
        if missing <> '{}' then
            insert into {{schema}}.bucket (name, touched_at) select name, now from unnest(missing) as name
            on conflict do nothing;
        end if;
        if left_at <> '{}' then -- together with the others, because all are locked in one order
            perform from {{schema}}.bucket where bucket.name = any (names || left_at) order by bucket.name for update;
        end if;
        select array_agg(locked.at), array_agg(locked.room), array_agg(locked.open_path), bool_or(locked.has_books),
            bool_or(locked.has_waiting)
        into places, rooms, open_path, has_books, anybody_waits
        from (
            select known.*
            from unnest(names) as wanted (name)
            cross join lateral (
                select bucket.ctid as at,
                    bucket.has_waiting and exists (select from {{schema}}.line where line.parked_at = bucket.name)
                        as has_waiting,
                    {{schema}}.free_of(bucket, rule, now) as room,
                    bucket.override is null and not rule.retired and (bucket.shut_until > now) is not true
                        as open_path,
                    not rule.retired and rule.settings ->> 'kind' <> 'concurrency' as has_books
                from {{schema}}.bucket
                left join {{schema}}.limit_rule as rule on rule.name = {{schema}}.limit_of(bucket.name)
                where bucket.name between wanted.name and wanted.name
                order by bucket.name desc limit 1
                for update of bucket
            ) as known
        ) as locked;
        exit when coalesce(cardinality(rooms), 0) = cardinality(names); -- an idle bucket may be forgotten in between
        missing := names;
    end loop;
    if now = statement_timestamp() then -- no other time was given
        now := clock_timestamp();
    end if;
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
                        if passing_path[passing] and open_path[place] is not null then
                            -- If the bucket only leads to another, the job waits for the end of a drain, and needs nothing.
                            unit := (
                                select case when bucket.override is null then 0 else unit end
                                from {{schema}}.bucket where bucket.name = names[place]);
                        end if;
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
        insert into {{schema}}.newcomer (queue, priority, task, buckets, seq)
        select wanted, priority, task, buckets, min(seq) from moved group by priority, task, buckets order by min(seq);
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
                ) end, found.ahead, found.ties, found.seq,
                coalesce(open_turns[array_position(open_priorities, found.priority)], 0),
                coalesce(open_numbers[array_position(open_priorities, found.priority)], 0)
            from found
            order by found.priority, found.seq;
        perform {{schema}}.charge(channel, names, places, used, alone, has_books, now);
    end if;
    -- The lines are locked, so that they are where they were. A line without a job is removed; one that a job has
    -- come to since then has a newcomer.
    line_starts := array(
        select (
            select ready.seq from {{schema}}.ready_limited as ready
            where ready.queue = wanted and ready.priority = seen.level and ready.task = seen.kind
            and ready.buckets = seen.text and ready.seq >= seen.start
            order by ready.seq limit 1)
        from unnest(line_priorities, line_tasks, line_buckets, line_starts)
            as seen (level, kind, text, start));
    delete from {{schema}}.line
    where line.ctid = any (array(
        select gone.at from unnest(lines, line_starts) as gone (at, start) where gone.start is null));
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
        parked_at = served.waits_at, needs = served.needs, from_seq = served.start
    from (
        select one.at, one.start, one.waits_at, one.needs, sum(one.jobs * 1000000::bigint / one.weight)
            over (partition by coalesce('=' || one.fair, one.at::text), one.level)::bigint as added
        from unnest(lines, line_starts, line_priorities, begins, line_weights, line_fairs, waits_at, waits_for)
            as one (at, start, level, jobs, weight, fair, waits_at, needs)
    ) as served
    where line.ctid = served.at and served.start is not null
    and (served.added > 0 or served.waits_at is not null);
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

-- As before, by that time, which is the answer; null: nothing was taken.
drop function {{schema}}.take(text, text[], bigint[], timestamptz);
create function {{schema}}.take(channel text, names text[], wanted bigint[], now timestamptz) returns bigint
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
declare
    is_told boolean := now <> statement_timestamp();
    known {{schema}}.bucket;
    rule {{schema}}.limit_rule;
    settings jsonb;
    after {{schema}}.bucket;
    afters {{schema}}.bucket[] := '{}';
    waited_for text[] := '{}';
begin
    for n in 1 .. cardinality(names) loop
        select * into known from {{schema}}.bucket where bucket.name = names[n] for update;
        if not is_told then
            now := clock_timestamp();
        end if;
        select * into rule from {{schema}}.limit_rule where limit_rule.name = {{schema}}.limit_of(names[n]);
        settings := coalesce(known.override, rule.settings);
        if known.name is null or rule.retired is not false or settings ->> 'kind' <> 'rate'
            or {{schema}}.free_of(known, rule, now) < wanted[n]
        then
            return null;
        end if;
        afters := afters || {{schema}}.charged(known, settings, wanted[n], true, now);
        if known.has_waiting then
            waited_for := waited_for || known.name;
        end if;
    end loop;
    foreach after in array afters loop
        update {{schema}}.bucket set spent = after.spent, since = after.since, scale = after.scale,
            slices = after.slices, units = after.units, touched_at = now
        where bucket.name = after.name;
    end loop;
    if waited_for <> '{}' then
        perform {{schema}}.look_again(channel, waited_for, '{}', now);
    end if;
    return {{schema}}.micros(now);
end $$;

-- As before, with the time at which it was taken.
create or replace procedure {{schema}}.take_early(channel text, names text[], wanted bigint[], alone boolean, now timestamptz,
    inout at bigint, inout granted boolean)
language plpgsql as $$
begin
    if alone then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    at := {{schema}}.take(channel, names, wanted, now);
    granted := at is not null;
    if alone and granted then
        commit;
        perform pg_logical_emit_message(true, 'holdfast', ''); -- something to write, without which no commit waits
    end if;
end $$;
