-- Replace the settings of a queue; a pause or a cool-down stays.
-- KEYS: partition
-- ARGV: name row
-- uses: unrefused
local key = partition .. ':queues'
local new, old = {cmsgpack.unpack(row)}, redis.call('HGET', key, name)
if old then
    new[1], new[2], new[3] = cmsgpack.unpack(old)
end
redis.call('HSET', key, name, cmsgpack.pack(unpack(new, 1, 8)))
return 1
