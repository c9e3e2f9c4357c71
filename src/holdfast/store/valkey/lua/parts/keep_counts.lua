-- Keep what a worker has counted, before its row is removed. A worker that is not here has been
-- counted already, or lies in another partition. `last` are its last facts, or '' for those of its
-- last beat.
local function keep_counts(worker, last)
    local found = redis.call('HGET', partition .. ':workers', worker)
    if not found then
        return
    end
    local told = cjson.decode(last ~= '' and last or cmsgpack.unpack(found)[WORKER_FACTS])
    for name, number in pairs(told.counts or {}) do
        redis.call('HINCRBY', partition .. ':worker_counts', name, string.format('%.0f', number))
    end
end
