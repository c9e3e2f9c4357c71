-- Takes from rates let others pass before they are on disk.

-- What these are: the server puts the expression of a function in place of a call only if the function promises no
-- more than its expression does. Until now it parsed and planned the two anew in every transaction.
alter function {{schema}}.micros(timestamptz) stable;
alter function {{schema}}.moment(bigint) stable;

-- As before, without a query over the slices of a window of which none has left it.
create or replace function {{schema}}.caught_up(bucket {{schema}}.bucket, settings jsonb, now timestamptz)
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
        per := round((settings ->> 'per')::numeric * 1000000);
        if settings ->> 'burst' is null then
            length := (per + 63) / 64;
            bucket.spent := 0; -- what a meter counted would later be read by this scale
            if bucket.scale = length and at / length - 64 <= all (bucket.slices) then
                return bucket;
            end if;
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
        else
            most := (settings ->> 'most')::bigint;
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

-- Take as `take` does, and answer when. `alone`: no transaction of the caller is around it. Then the buckets are
-- unlocked before the log is on disk, so that others count behind this meanwhile, and a second transaction waits for
-- the log. Nobody hears of what a crash of the server could undo: whoever counted behind this has a later place in the
-- log, and this one answers only when the log is on disk (and at the standbys, if the server waits for those).
create procedure {{schema}}.take_early(channel text, names text[], wanted bigint[], alone boolean, now timestamptz,
    inout at bigint, inout granted boolean)
language plpgsql as $$
begin
    if alone then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    at := {{schema}}.micros(now);
    granted := {{schema}}.take(channel, names, wanted, now);
    if alone and granted then
        commit;
        perform pg_logical_emit_message(true, 'holdfast', ''); -- something to write, without which no commit waits
    end if;
end $$;
