-- How many moves there have ever been: what is folded, and what is not yet. Answers field, number, …;
-- a field may come several times.
-- KEYS: partition
-- ARGV:
local answer = redis.call('HGETALL', partition .. ':totals')
for _, minute in ipairs(redis.call('ZRANGE', partition .. ':unfolded', 0, -1)) do
    local moves = redis.call('HGETALL', partition .. ':moves:' .. minute)
    for n = 1, #moves do
        answer[#answer + 1] = moves[n]
    end
end
return answer
