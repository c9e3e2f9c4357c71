-- Replace the settings of a queue, made if absent. A pause or a cool-down stays.
-- KEYS: partition
-- ARGV: name row
-- uses: unrefused
local key = partition .. ':queues'
local new, old = cmsgpack.unpack(row), redis.call('HGET', key, name)
if old then
    local settings = new[QUEUE_SETTINGS]
    new = cmsgpack.unpack(old)
    new[QUEUE_SETTINGS] = settings
end
redis.call('HSET', key, name, cmsgpack.pack(new))
return 1
