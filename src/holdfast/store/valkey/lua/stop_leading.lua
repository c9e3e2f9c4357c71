-- Give a role up, if it is held.
-- KEYS: partition
-- ARGV: role worker
local row = redis.call('HGET', partition .. ':leaders', role)
if row and cmsgpack.unpack(row) == worker then
    redis.call('HDEL', partition .. ':leaders', role)
end
return 1
