-- Extend a worker's lease and say which of its attempts need attention.
-- KEYS: partition
-- ARGV: now worker lease home caught_up stuck held
-- uses: time record
--
-- `held`: [id, fence]. `home` is '1' in the partition that keeps the workers' rows: only there a
-- worker may be found unknown. Answers whether it is known, those to cancel, those lost.
--
-- The lease is removed before it is put back: a removal is allowed when memory is short, and after
-- it so is the rest. A worker must not lose its jobs because there is no room for new ones.
local BEATEN_AT, LEASE, ALIVE_SINCE, WRITTEN_UNTIL, STUCK = 8, 9, 10, 11, 12 -- see register.lua
if home == '1' then
    local row = redis.call('HGET', partition .. ':workers', worker)
    if not row then
        return {0, {}, {}}
    end
    local told = {cmsgpack.unpack(row)}
    local beaten_at, length = told[BEATEN_AT], told[LEASE]
    local expires_at = tonumber(redis.call('ZSCORE', partition .. ':leases', worker) or 0)
    if expires_at <= moment or moment < beaten_at or 2 * (moment - beaten_at) > length then
        told[ALIVE_SINCE] = moment
    end
    if caught_up == '1' then
        told[WRITTEN_UNTIL] = beaten_at
    end
    told[BEATEN_AT], told[LEASE], told[STUCK] = moment, after(tonumber(lease)) - moment, stuck
    redis.call('ZREM', partition .. ':leases', worker)
    redis.call('HSET', partition .. ':workers', worker, cmsgpack.pack(unpack(told, 1, STUCK)))
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
return {1, cancel, lost}
