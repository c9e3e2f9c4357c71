-- Take permits without a lease, one take after the other.
-- KEYS: partition
-- ARGV: now takes
-- uses: time buckets
--
-- `takes`: [units, buckets], of which each leads to the next one and the last is the one that is asked. Answers the
-- time, and for each take 1, the microseconds until there is room, or false where time alone does not bring it.
-- What can never be granted answers 'kind' if the limit is not defined or is a concurrency, or 'largest'.
local answer, given = {}, cmsgpack.unpack(takes)

local function never(bucket, units)
    local rule = permits.rule(bucket)
    if not rule or permits.kinds.settings(rule[RULE_SETTINGS]).kind == 'concurrency' then
        return 'kind'
    end
    return units > permits.largest(bucket) and 'largest' or nil
end

-- When all of these buckets have so much; nil if time alone does not bring it.
local function opens_at(units, buckets)
    local latest = moment
    for n, bucket in ipairs(buckets) do
        if permits.free(bucket, n < #buckets) < units then
            local at = permits.opens_at(bucket, units)
            if not at then
                return nil
            end
            latest = math.max(latest, at)
        end
    end
    return latest
end

local function take(units, buckets)
    for n, bucket in ipairs(buckets) do
        local settings = permits.settings(bucket)
        if settings and settings.kind == 'budget' then
            permits.kinds.spend(permits.change(bucket), settings, units, n < #buckets)
        elseif settings then
            permits.kinds.take(permits.change(bucket), settings, units)
        end
    end
end

for n, one in ipairs(given) do
    local units, buckets = one[1], one[2]
    permits.load(buckets)
    local refused = never(buckets[#buckets], units)
    local at = not refused and opens_at(units, buckets)
    if at == moment then
        take(units, buckets)
        answer[n] = 1
    else
        answer[n] = refused or (at and string.format('%.0f', at - moment)) or false
    end
end
permits.save()
return {string.format('%.0f', moment), answer}
