-- Take over the cool-down of a queue that was throttled in another partition.
-- KEYS: partition
-- ARGV: name row
-- uses: unrefused
local key = partition .. ':queues'
local new, old = cmsgpack.unpack(row), redis.call('HGET', key, name)
local mine = old and cmsgpack.unpack(old) or new
-- Of two windows the later counts, with its own number of throttles.
if new[QUEUE_COOL_UNTIL] and new[QUEUE_COOL_UNTIL] >= (mine[QUEUE_COOL_UNTIL] or 0) then
    mine[QUEUE_COOL_UNTIL], mine[QUEUE_THROTTLES] = new[QUEUE_COOL_UNTIL], new[QUEUE_THROTTLES]
end
redis.call('HSET', key, name, cmsgpack.pack(mine))
return 1
