-- Move a cursor forward, never back, for a schedule that is there.
-- KEYS: partition
-- ARGV: schedule scope at
local key = partition .. ':cursors:' .. schedule
local stands = redis.call('HGET', key, scope)
local is_there = redis.call('HEXISTS', partition .. ':schedules', schedule) == 1
if is_there and (not stands or stands < at) then
    redis.call('HSET', key, scope, at)
end
return 1
