-- Remove operations that do not run and have not moved for long.
-- KEYS: partition
-- ARGV: now kept_for limit
-- uses: time operations
--
-- Answers how many were removed.
local till, gone = moment - tonumber(kept_for) * 1000000, 0
for _, id in ipairs(redis.call('ZRANGE', partition .. ':operations-time', 0, -1)) do
    if gone >= tonumber(limit) then
        break
    end
    local row = operation_row(id)
    if not row or (row[OPERATION_STATE] ~= 'running' and row[OPERATION_ADVANCED_AT] <= till) then
        redis.call('HDEL', partition .. ':operations', id)
        redis.call('ZREM', partition .. ':operations-time', id)
        redis.call('DEL', partition .. ':operation-kept:' .. id)
        gone = gone + 1
    end
end
return gone
