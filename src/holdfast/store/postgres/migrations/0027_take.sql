-- Taking from rates without a lease, in one round trip. Buckets are locked by name, as everybody does it. Nothing is
-- taken, and this answers false, unless every bucket is one of a rate that is in force and has so much free: all other
-- cases are decided by the program (`holdfast.store.taking`), which knows when there is room and what is refused.
--
-- `names`: each bucket once, in their order.
create function {{schema}}.take(channel text, names text[], wanted bigint[], now timestamptz) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_bitmapscan = off set enable_material = off as $$
declare
    known {{schema}}.bucket;
    rule {{schema}}.limit_rule;
    settings jsonb;
    after {{schema}}.bucket;
    afters {{schema}}.bucket[] := '{}';
    waited_for text[] := '{}';
begin
    for n in 1 .. cardinality(names) loop
        select * into known from {{schema}}.bucket where bucket.name = names[n] for update;
        select * into rule from {{schema}}.limit_rule where limit_rule.name = {{schema}}.limit_of(names[n]);
        settings := coalesce(known.override, rule.settings);
        if known.name is null or rule.retired is not false or settings ->> 'kind' <> 'rate'
            or {{schema}}.free_of(known, rule, now) < wanted[n]
        then
            return false;
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
    return true;
end $$;
