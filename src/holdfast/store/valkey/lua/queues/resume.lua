-- Allow claims again, end any cool-down, and wake the workers.
-- KEYS: partition
-- ARGV: names fresh
-- uses: unrefused
--
-- `fresh`: the packed row of a queue that is absent.
local key = partition .. ':queues'
local channel = partition:gsub(':%d+}$', '}') .. ':wake'
for _, name in ipairs(cmsgpack.unpack(names)) do
    local row = cmsgpack.unpack(redis.call('HGET', key, name) or fresh)
    row[QUEUE_PAUSED], row[QUEUE_COOL_UNTIL], row[QUEUE_THROTTLES] = false, false, 0
    redis.call('HSET', key, name, cmsgpack.pack(row))
    redis.call('PUBLISH', channel, 'ready:' .. name)
end
return 1
