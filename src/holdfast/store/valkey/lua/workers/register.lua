-- Add a worker whose lease ends so many seconds from now.
-- KEYS: partition
-- ARGV: now worker lease facts
-- uses: unrefused time
--
-- `facts`: [name, host, pid, queues, tasks, version], or nil where only the lease is kept.
-- The row: what was told, then when it was started, its last beat, the length of its lease in
-- microseconds, since when it is alive without a break, up to when its ends are written, and how
-- many slots of each queue are lost to stuck handlers (JSON).
redis.call('ZADD', partition .. ':leases', after(tonumber(lease)), worker)
local told = cmsgpack.unpack(facts)
if told then
    local before = redis.call('HGET', partition .. ':workers', worker)
    local row = before and {cmsgpack.unpack(before)} or {}
    local started_at, alive_since, written_until = row[7] or moment, row[10], row[11]
    row = cmsgpack.pack(
        told[1], told[2], told[3], told[4], told[5], told[6], started_at, moment,
        after(tonumber(lease)) - moment, alive_since or moment, written_until or moment,
        row[12] or '{}'
    )
    redis.call('HSET', partition .. ':workers', worker, row)
end
return 1
