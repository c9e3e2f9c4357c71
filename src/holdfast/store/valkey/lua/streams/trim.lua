-- Remove frames of live streams that are older than so many seconds.
-- KEYS: partition
-- ARGV: now kept most
-- uses: time streams
--
-- The set `live_streams` has the streams by the time of an entry that is no younger than their oldest one.
local count = 0
local before = after(-kept)

-- Remove entries that are too old; answers when the oldest of the others was written.
local function trim(key)
    while count < tonumber(most) do
        local entry = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
        if not entry then
            redis.call('DEL', key)
            return false
        end
        local at = cmsgpack.unpack(entry[2][2])[FRAMES_AT]
        if at >= before then
            return at
        end
        redis.call('XDEL', key, entry[1])
        count = count + 1
    end
    return before - 1
end

for _, member in ipairs(redis.call('ZRANGEBYSCORE', partition .. ':live_streams', '-inf', '(' .. before, 'LIMIT', 0, most)) do
    local id, stream = member:match('^(%S+) (.*)$')
    local oldest = trim(frames_key(id, stream))
    if oldest then
        redis.call('ZADD', partition .. ':live_streams', oldest, member)
    else
        redis.call('ZREM', partition .. ':live_streams', member)
    end
end
return count
