-- What a job with limits costs that is written with many others.

-- One row tells up to fifty lines (`others`, behind `buckets`) that jobs come to together. A row for each, with its
-- entries in three indexes, was a sixth of what the server does.
alter table {{schema}}.newcomer add column others text[] collate "C" not null default '{}';
-- Lines are served in the order in which they are told, so each of them has a number of its own.
alter table {{schema}}.newcomer alter column n set increment by 50;

-- Jobs of a queue differ in their buckets, and seldom in priority or task. An entry is found with fewer comparisons
-- if what differs comes early. No two entries are equal, so none can be shared.
drop index {{schema}}.ready_limited_line;
create index ready_limited_line on {{schema}}.ready_limited (queue, buckets, priority, task, seq)
with (deduplicate_items = off);

-- As before, of all lines that a row tells, and of few rows if each tells many.
create or replace function {{schema}}.hear(wanted text, now timestamptz, out left_at text[], out opened text[])
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
declare
    shut record;
    head tid;
begin
    if exists (select from {{schema}}.newcomer where queue = wanted)
        or exists (select from {{schema}}.newcomer where again)
    then
        with heard as (
            delete from {{schema}}.newcomer
            where n = any (array(
                select counted.n
                from (
                    select first.n, sum(1 + first.others) over (order by first.n) - first.others as lines
                    from (
                        select n, cardinality(others) as others from {{schema}}.newcomer
                        where queue = wanted order by n limit 5000 for update skip locked
                    ) as first
                ) as counted
                where counted.lines <= 5000) || array(
                select n from {{schema}}.newcomer
                where again order by n limit 5000 for update skip locked))
            returning n, queue, priority, task, buckets, others, again, weight, seq
        ),
        told as (
            select n, queue, priority, task, buckets, again, weight, seq from heard
            union all
            select heard.n + other.place, queue, priority, task, other.buckets, again, weight, seq
            from heard cross join lateral unnest(heard.others) with ordinality as other (buckets, place)
        ),
        came as materialized (
            select queue, priority, task, buckets, bool_or(again) as again, min(n) as n, min(seq) as seq,
                (array_agg(weight order by n desc) filter (where weight is not null))[1] as weight,
                -- a look at the text is a tenth of a call
                case when strpos(buckets, '=') > 0 then {{schema}}.fair_of(buckets) end as fair,
                case when strpos(buckets, '+') > 0 then {{schema}}.labels_of(buckets) else '{}' end as labels
            from told group by queue, priority, task, buckets
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
                (queue, priority, task, buckets, n, from_seq, fair, labels, weight, turn)
            select came.queue, came.priority, came.task, came.buckets, came.n, coalesce(came.seq, 0), came.fair,
                came.labels,
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
            set weight = excluded.weight, from_seq = least(known.from_seq, excluded.from_seq), parked_at = case
                when not (select bool_or(came.again) from came) then known.parked_at
                when (select again from came where came.queue = known.queue and came.priority = known.priority
                    and came.task = known.task and came.buckets = known.buckets) then null
                else known.parked_at end
        )
        select array_agg(distinct parked_at order by parked_at) into left_at from parked;
    end if;
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
                    order by line.priority, line.turn, line.n limit case shut.free when 0 then 1000 else least(shut.free, 1000) end
                    for update skip locked
                ) as first
            ) as fitting
            where fitting.needs <= shut.free));
    end loop;
end $$;
