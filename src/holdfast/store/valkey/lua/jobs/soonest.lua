-- Microseconds until the first time in a set by time; false if the set is empty.
-- KEYS: partition
-- ARGV: now name
-- uses: time
local first = redis.call('ZRANGE', partition .. ':' .. name, 0, 0, 'WITHSCORES')
return first[2] and string.format('%.0f', tonumber(first[2]) - moment) or false
