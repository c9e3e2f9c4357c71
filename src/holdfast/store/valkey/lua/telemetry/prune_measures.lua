-- Remove points that were kept long enough. A step is removed whole. Answers how many points are gone.
-- KEYS: partition
-- ARGV: now limit kept
-- uses: time
--
-- `kept`: [step and grain, seconds]
local gone = 0
for _, one in ipairs(cmsgpack.unpack(kept)) do
    local list = partition .. ':steps:' .. one[1]
    local oldest = math.floor((moment - one[2] * 1000000) / 60000000)
    for _, at in ipairs(redis.call('ZRANGEBYSCORE', list, '-inf', '(' .. string.format('%.0f', oldest))) do
        if gone >= tonumber(limit) then
            return gone
        end
        local key = partition .. ':series:' .. one[1] .. ':' .. at
        gone = gone + redis.call('HLEN', key)
        redis.call('ZREM', list, at)
        redis.call('UNLINK', key)
    end
end
return gone
