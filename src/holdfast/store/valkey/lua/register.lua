-- Add a worker whose lease ends so many seconds from now.
-- KEYS: partition
-- ARGV: now worker lease facts
-- uses: unrefused time
--
-- `facts`: [name, host, pid, queues, tasks, version], or nil where only the lease is kept.
redis.call('ZADD', partition .. ':leases', after(tonumber(lease)), worker)
local told = cmsgpack.unpack(facts)
if told then
    local before = redis.call('HGET', partition .. ':workers', worker)
    local started_at = before and select(7, cmsgpack.unpack(before)) or moment
    local row = cmsgpack.pack(
        told[1], told[2], told[3], told[4], told[5], told[6], started_at, moment
    )
    redis.call('HSET', partition .. ':workers', worker, row)
end
return 1
