-- Extend a worker's lease and say which of its attempts need attention.
-- KEYS: partition
-- ARGV: now worker lease home caught_up facts held
-- uses: time record mark
--
-- `held`: [id, fence]. `home` is '1' in the partition that keeps the workers' rows: only there a
-- worker can be found unknown. Answers whether it is known, the ids of the jobs to cancel and of
-- those lost, whether it is to drain, and the mark of the store if something is missing.
--
-- The lease is removed before it is written: a server without memory allows a removal, and after it
-- the other writes. A worker must not lose its jobs because there is no room for new ones.
local drain = 0
if home == '1' then
    local found = redis.call('HGET', partition .. ':workers', worker)
    if not found then
        return {0, {}, {}, 0, mark_of_store()}
    end
    local row = cmsgpack.unpack(found)
    local beaten_at = row[WORKER_BEATEN_AT]
    local expires_at = tonumber(redis.call('ZSCORE', partition .. ':leases', worker) or 0)
    if expires_at <= moment or moment < beaten_at or 2 * (moment - beaten_at) > row[WORKER_LEASE] then
        row[WORKER_ALIVE_SINCE] = moment
    end
    if caught_up == '1' then
        row[WORKER_WRITTEN_UNTIL] = beaten_at
    end
    row[WORKER_BEATEN_AT], row[WORKER_FACTS] = moment, facts
    row[WORKER_LEASE] = after(tonumber(lease)) - moment
    drain = row[WORKER_DRAIN_REQUESTED_AT] and 1 or 0
    redis.call('ZREM', partition .. ':leases', worker)
    redis.call('HSET', partition .. ':workers', worker, cmsgpack.pack(row))
end
redis.call('ZREM', partition .. ':leases', worker)
redis.call('ZADD', partition .. ':leases', after(tonumber(lease)), worker)

local attempts, ids, cancel, lost = cmsgpack.unpack(held), {}, {}, {}
for n = 1, #attempts do
    ids[n] = attempts[n][1]
end
load(ids)
for n = 1, #attempts do
    local record = records[ids[n]]
    local ours = record and record[STATE] == 'running' and record[WORKER] == worker
    if not ours or record[FENCE] ~= attempts[n][2] then
        lost[#lost + 1] = ids[n]
    elseif record[CANCEL_AT] then
        cancel[#cancel + 1] = ids[n]
    end
end
return {1, cancel, lost, drain, #lost > 0 and mark_of_store()}
