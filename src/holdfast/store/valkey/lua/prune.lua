-- Remove ended jobs whose time to be kept is over. Answers how many.
-- KEYS: partition
-- ARGV: now limit
-- uses: time record counts changes names places removal
local ids = redis.call('ZRANGEBYSCORE', partition .. ':expiry', '-inf', moment, 'LIMIT', 0, limit)
load(ids)
for _, id in ipairs(ids) do
    remove(id, records[id])
end
flush()
return #ids
