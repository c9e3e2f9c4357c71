-- Say what a worker may have to do without having been woken for it.
-- KEYS: partition
-- ARGV: now worker queues tasks lately
-- uses: time names
--
-- Answers whether jobs of these queues and tasks wait, the microseconds until the next due time or
-- deadline, how often a cancel was asked of the worker, how often schedules were changed, how
-- many workers are live, whether an operation is to run, how many workers on the list are not live, and whether
-- flows owe something.
local ARGUMENT_BATCH = 2000
local lines, served = {}, cmsgpack.unpack(queues)
for _, task in ipairs(cmsgpack.unpack(tasks)) do
    for n = 1, #served do
        lines[#lines + 1] = partition .. ':ready:' .. line(served[n], task)
    end
end

-- Whether lines of jobs with limits are open, or may be opened now.
local function any_limited_waits()
    for n = 1, #served do
        if redis.call('EXISTS', partition .. ':groups:' .. served[n]) == 1 then
            return true
        end
    end
    local most = string.format('%.0f', moment)
    return #redis.call('ZRANGEBYSCORE', partition .. ':opening', '-inf', most, 'LIMIT', 0, 1) > 0
end

local function any_waits()
    if redis.call('EXISTS', partition .. ':lines') == 1 and any_limited_waits() then
        return 1
    end
    for first = 1, #lines, ARGUMENT_BATCH do
        local last = math.min(first + ARGUMENT_BATCH - 1, #lines)
        if redis.call('EXISTS', unpack(lines, first, last)) > 0 then
            return 1
        end
    end
    return 0
end

local since = '(' .. string.format('%.0f', moment - tonumber(lately) * 1000000)
local function soonest(name)
    local key = partition .. ':' .. name
    local found = redis.call('ZRANGEBYSCORE', key, since, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    return tonumber(found[2] or 'inf')
end

local due = math.min(soonest('due'), soonest('deadlines'))
local counters = redis.call('HMGET', partition .. ':wake_counters', 'cancel:' .. worker, 'schedules')
return {
    any_waits(),
    due < math.huge and string.format('%.0f', due - moment) or false,
    tonumber(counters[1] or 0),
    tonumber(counters[2] or 0),
    redis.call('ZCOUNT', partition .. ':leases', '(' .. string.format('%.0f', moment), '+inf'),
    redis.call('EXISTS', partition .. ':operations-running'),
    redis.call('ZCOUNT', partition .. ':leases', '-inf', string.format('%.0f', moment)),
    redis.call('EXISTS', partition .. ':errands'),
}
