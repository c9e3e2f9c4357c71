-- Remove cursors of a schedule that are still older than a time.
-- KEYS: partition
-- ARGV: schedule before scopes
local key = partition .. ':cursors:' .. schedule
for _, scope in ipairs(cmsgpack.unpack(scopes)) do
    local at = redis.call('HGET', key, scope)
    if at and at < before then
        redis.call('HDEL', key, scope)
    end
end
return 1
