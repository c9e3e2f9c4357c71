-- Take over the cool-down of a queue that was throttled in another partition.
-- KEYS: partition
-- ARGV: name row
-- uses: unrefused
local key = partition .. ':queues'
local new, old = {cmsgpack.unpack(row)}, redis.call('HGET', key, name)
local mine = old and {cmsgpack.unpack(old)} or new
-- The later window is the one that counts, with its own count.
if new[2] and new[2] >= (mine[2] or 0) then
    mine[2], mine[3] = new[2], new[3]
end
redis.call('HSET', key, name, cmsgpack.pack(unpack(mine, 1, 8)))
return 1
