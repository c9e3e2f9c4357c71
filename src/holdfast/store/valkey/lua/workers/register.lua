-- Add a worker whose lease ends so many seconds from now.
-- KEYS: partition
-- ARGV: now worker lease row
-- uses: unrefused time
--
-- `row`: the worker's row without its times, or nil where only the lease is kept. A worker that is
-- known already keeps its times.
redis.call('ZADD', partition .. ':leases', after(tonumber(lease)), worker)
local new = cmsgpack.unpack(row)
if new then
    local found = redis.call('HGET', partition .. ':workers', worker)
    local old = found and cmsgpack.unpack(found)
    new[WORKER_STARTED_AT] = old and old[WORKER_STARTED_AT] or moment
    new[WORKER_BEATEN_AT] = moment
    new[WORKER_LEASE] = after(tonumber(lease)) - moment
    new[WORKER_ALIVE_SINCE] = old and old[WORKER_ALIVE_SINCE] or moment
    new[WORKER_WRITTEN_UNTIL] = old and old[WORKER_WRITTEN_UNTIL] or moment
    new[WORKER_DRAIN_REQUESTED_AT] = old and old[WORKER_DRAIN_REQUESTED_AT] or false
    redis.call('HSET', partition .. ':workers', worker, cmsgpack.pack(new))
    redis.call('PUBLISH', partition:gsub(':%d+}$', '}') .. ':wake', 'fleet:')
end
return 1
