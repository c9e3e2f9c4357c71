-- Take or extend the leadership of a role.
-- KEYS: partition
-- ARGV: now role worker ttl
-- uses: time
local key = partition .. ':leaders'
local row = redis.call('HGET', key, role)
if row then
    local leader, expires_at = cmsgpack.unpack(row)
    if leader ~= worker and expires_at > moment then
        return 0
    end
end
redis.call('HDEL', key, role)
redis.call('HSET', key, role, cmsgpack.pack(worker, after(tonumber(ttl))))
return 1
