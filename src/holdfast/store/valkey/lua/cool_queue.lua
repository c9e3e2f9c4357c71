-- Take over the cool-down of a queue that was throttled in another partition.
-- KEYS: partition
-- ARGV: name row
local key = partition .. ':queues'
local new, old = {cmsgpack.unpack(row)}, redis.call('HGET', key, name)
local mine = old and {cmsgpack.unpack(old)} or new
mine[2] = math.max(mine[2] or 0, new[2] or 0)
mine[3] = math.max(mine[3], new[3])
redis.call('HSET', key, name, cmsgpack.pack(unpack(mine, 1, 8)))
return 1
