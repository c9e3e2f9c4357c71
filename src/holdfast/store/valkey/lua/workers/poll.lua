-- Say what a worker may not have been woken for.
-- KEYS: partition
-- ARGV: now worker queues tasks lately
-- uses: time names
--
-- Answers whether jobs of these queues and tasks wait, the microseconds until the next moment that
-- is due, how often a cancel was asked of the worker, how often schedules were changed, and how
-- many workers are live.
local CHUNK = 2000
local lines, served = {}, cmsgpack.unpack(queues)
for _, task in ipairs(cmsgpack.unpack(tasks)) do
    for n = 1, #served do
        lines[#lines + 1] = partition .. ':ready:' .. line(served[n], task)
    end
end

local function any_waits()
    for first = 1, #lines, CHUNK do
        if redis.call('EXISTS', unpack(lines, first, math.min(first + CHUNK - 1, #lines))) > 0 then
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
local told = redis.call('HMGET', partition .. ':wake_counters', 'cancel:' .. worker, 'schedules')
return {
    any_waits(),
    due < math.huge and string.format('%.0f', due - moment) or false,
    tonumber(told[1] or 0),
    tonumber(told[2] or 0),
    redis.call('ZCOUNT', partition .. ':leases', '(' .. string.format('%.0f', moment), '+inf'),
}
