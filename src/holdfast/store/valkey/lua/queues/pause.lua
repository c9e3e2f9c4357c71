-- Stop claims from these queues, made if absent, and tell the workers.
-- KEYS: partition
-- ARGV: names fresh
-- uses: unrefused
--
-- `fresh`: the packed row of a queue that is absent.
local key = partition .. ':queues'
local channel = partition:gsub(':%d+}$', '}') .. ':wake'
for _, name in ipairs(cmsgpack.unpack(names)) do
    local row = cmsgpack.unpack(redis.call('HGET', key, name) or fresh)
    row[QUEUE_PAUSED] = true
    redis.call('HSET', key, name, cmsgpack.pack(row))
    redis.call('PUBLISH', channel, 'paused:' .. name)
end
return 1
