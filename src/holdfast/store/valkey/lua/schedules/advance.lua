-- Move a cursor of an existing schedule forward, never back.
-- KEYS: partition
-- ARGV: now schedule scope at
-- uses: time schedules
--
-- Answers how many seconds the schedule keeps its ledger, as text; false if it is gone.
local key, row = partition .. ':cursors:' .. schedule, schedule_row(schedule)
if not row then
    return false
end
local stands = redis.call('HGET', key, scope)
if not stands or stands < at then
    redis.call('HSET', key, scope, at)
end
return tostring(row[SCHEDULE_KEEP])
