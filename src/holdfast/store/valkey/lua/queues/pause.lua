-- Stop claims from these queues, made if absent, and tell the workers.
-- KEYS: partition
-- ARGV: names fresh
-- uses: unrefused
local key = partition .. ':queues'
local channel = partition:gsub(':%d+}$', '}') .. ':wake'
for _, name in ipairs(cmsgpack.unpack(names)) do
    local row = {cmsgpack.unpack(redis.call('HGET', key, name) or fresh)}
    row[1] = true
    redis.call('HSET', key, name, cmsgpack.pack(unpack(row, 1, 8)))
    redis.call('PUBLISH', channel, 'paused:' .. name)
end
return 1
