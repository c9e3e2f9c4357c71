-- Allow claims again, end any cool-down, and wake the workers.
-- KEYS: partition
-- ARGV: names fresh
-- uses: unrefused
local key = partition .. ':queues'
local channel = partition:gsub(':%d+}$', '}') .. ':wake'
for _, name in ipairs(cmsgpack.unpack(names)) do
    local row = {cmsgpack.unpack(redis.call('HGET', key, name) or fresh)}
    row[1], row[2], row[3] = false, nil, 0
    redis.call('HSET', key, name, cmsgpack.pack(unpack(row, 1, 8)))
    redis.call('PUBLISH', channel, 'ready:' .. name)
end
return 1
