-- The moves of the minutes from `first` to `last`. Answers minute and its fields and numbers, minute,
-- …; a minute may come several times, once for what is folded.
-- KEYS: partition
-- ARGV: first last
-- uses: rolling
local answer, open = {}, closed()

local function add(minute, key)
    answer[#answer + 1] = minute
    answer[#answer + 1] = redis.call('HGETALL', partition .. key)
end

for _, minute in ipairs(redis.call('ZRANGEBYSCORE', partition .. ':minutes', first, '(' .. last)) do
    add(minute, ':traffic:' .. minute)
end
for _, minute in ipairs(redis.call('ZRANGE', partition .. ':unfolded', 0, -1)) do
    local at = math.max(tonumber(minute), open)
    if at >= tonumber(first) and at < tonumber(last) then
        add(string.format('%.0f', at), ':moves:' .. minute)
    end
end
return answer
