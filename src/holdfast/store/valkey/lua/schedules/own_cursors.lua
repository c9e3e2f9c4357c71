-- The newest recorded plan of no scope, of every schedule of this partition. Answers name, instant, …
-- KEYS: partition
-- ARGV:
local answer = {}
for _, name in ipairs(redis.call('HKEYS', partition .. ':schedules')) do
    local at = redis.call('HGET', partition .. ':cursors:' .. name, '')
    if at then
        answer[#answer + 1] = name
        answer[#answer + 1] = at
    end
end
return answer
