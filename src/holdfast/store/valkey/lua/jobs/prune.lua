-- Remove ended jobs whose time to be kept is over, and what is left of those put aside. Answers how
-- many.
-- KEYS: partition
-- ARGV: now limit
-- uses: time record counts changes names places removal
local ids = redis.call('ZRANGEBYSCORE', partition .. ':expiry', '-inf', moment, 'LIMIT', 0, limit)
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    remove(id, record and ENDED[record[STATE]] and record)
end
flush()
return #ids
