-- Extend a worker's lease and say which of its attempts need attention.
-- KEYS: partition
-- ARGV: now worker lease home held
-- uses: time record
--
-- `held`: [id, fence]. `home` is '1' in the partition that keeps the workers' rows: only there a
-- worker may be found unknown. Answers whether it is known, those to cancel, those lost.
--
-- The lease is removed before it is put back: a removal is allowed when memory is short, and after
-- it so is the rest. A worker must not lose its jobs because there is no room for new ones.
if home == '1' then
    local row = redis.call('HGET', partition .. ':workers', worker)
    if not row then
        return {0, {}, {}}
    end
    local told = {cmsgpack.unpack(row)}
    told[8] = moment
    redis.call('ZREM', partition .. ':leases', worker)
    redis.call('HSET', partition .. ':workers', worker, cmsgpack.pack(unpack(told, 1, 8)))
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
