-- The members of a set by time whose time came at least `slack` seconds ago, each with that time.
-- KEYS: partition
-- ARGV: now name edge slack offset limit
-- uses: time
--
-- `edge` is '(' where a member of that very moment is not late yet, else ''.
local latest = edge .. string.format('%.0f', moment - tonumber(slack) * 1000000)
local key = partition .. ':' .. name
return redis.call('ZRANGEBYSCORE', key, '-inf', latest, 'WITHSCORES', 'LIMIT', offset, limit)
