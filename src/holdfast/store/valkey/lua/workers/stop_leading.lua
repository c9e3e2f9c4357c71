-- Give up a role, if the worker holds it, and wake the other workers.
-- KEYS: partition
-- ARGV: role worker
local row = redis.call('HGET', partition .. ':leaders', role)
if row and cmsgpack.unpack(row) == worker then
    redis.call('HDEL', partition .. ':leaders', role)
    redis.call('PUBLISH', partition:gsub(':%d+}$', '}') .. ':wake', 'lead:' .. role)
end
return 1
