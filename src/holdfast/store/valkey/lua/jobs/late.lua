-- The members of a set by time whose moment came so many seconds ago or earlier, a bite of them,
-- each with that moment.
-- KEYS: partition
-- ARGV: now name edge slack offset bite
-- uses: time
--
-- `edge` is '(' where that very moment is not late yet, else ''.
local latest = edge .. string.format('%.0f', moment - tonumber(slack) * 1000000)
local key = partition .. ':' .. name
return redis.call('ZRANGEBYSCORE', key, '-inf', latest, 'WITHSCORES', 'LIMIT', offset, bite)
