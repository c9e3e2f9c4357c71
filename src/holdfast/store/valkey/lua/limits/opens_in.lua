-- Microseconds until time opens a bucket that holds up jobs, or false.
-- KEYS: partition
-- ARGV: now
-- uses: time
local first = redis.call('ZRANGE', partition .. ':opening', 0, 0, 'WITHSCORES')
return first[2] and string.format('%.0f', math.max(0, tonumber(first[2]) - moment)) or false
