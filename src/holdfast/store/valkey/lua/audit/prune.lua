-- Remove the oldest acts.
-- KEYS: partition
-- ARGV: now kept_for limit
-- uses: time audit
--
-- Answers how many were removed.
local till = string.format('%.0f', moment - tonumber(kept_for) * 1000000)
local times = partition .. ':audit-time'
local ids = redis.call('ZRANGEBYSCORE', times, '-inf', till, 'LIMIT', 0, limit)
for n = 1, #ids do
    local found = redis.call('HGET', partition .. ':audit', ids[n])
    local lists = found and audit_lists(cmsgpack.unpack(found)) or {times}
    redis.call('HDEL', partition .. ':audit', ids[n])
    for _, list in ipairs(lists) do
        redis.call('ZREM', list, ids[n])
    end
end
return #ids
