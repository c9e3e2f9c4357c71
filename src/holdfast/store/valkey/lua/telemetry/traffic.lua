-- The moves of the minutes from `since` to `until`. Answers minute and its fields and numbers, minute,
-- …; a minute may come twice, once for what is folded.
-- KEYS: partition
-- ARGV: first last
local answer = {}
for _, kind in ipairs({'traffic', 'moves'}) do
    local list = partition .. (kind == 'traffic' and ':minutes' or ':unfolded')
    for _, minute in ipairs(redis.call('ZRANGEBYSCORE', list, first, last)) do
        answer[#answer + 1] = minute
        answer[#answer + 1] = redis.call('HGETALL', partition .. ':' .. kind .. ':' .. minute)
    end
end
return answer
