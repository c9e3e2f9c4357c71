-- All times ever measured: those that are rolled up, and the measures that are not yet. Answers line,
-- times, …, and a list of fields and measures for each minute.
-- KEYS: partition
-- ARGV:
-- uses: rolling
local measures = {}
for _, minute in ipairs(redis.call('ZRANGEBYSCORE', partition .. ':measured', rolled(), '+inf')) do
    measures[#measures + 1] = redis.call('HGETALL', partition .. ':measures:' .. minute)
end
return {redis.call('HGETALL', partition .. ':ever'), measures}
