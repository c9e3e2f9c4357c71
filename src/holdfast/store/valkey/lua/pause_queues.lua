-- Stop claims from these queues, made if absent.
-- KEYS: partition
-- ARGV: names fresh
-- uses: unrefused
local key = partition .. ':queues'
for _, name in ipairs(cmsgpack.unpack(names)) do
    local row = {cmsgpack.unpack(redis.call('HGET', key, name) or fresh)}
    row[1] = true
    redis.call('HSET', key, name, cmsgpack.pack(unpack(row, 1, 8)))
end
return 1
