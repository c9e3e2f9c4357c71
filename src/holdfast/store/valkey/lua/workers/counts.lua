-- Answer what all workers have counted: names and numbers by turns. Those that left are in a hash
-- of their own, the others are counted from their facts.
-- KEYS: partition
local sums, answer = {}, {}
local kept = redis.call('HGETALL', partition .. ':worker_counts')
for n = 1, #kept, 2 do
    sums[kept[n]] = tonumber(kept[n + 1])
end
for _, row in ipairs(redis.call('HVALS', partition .. ':workers')) do
    local told = cjson.decode(cmsgpack.unpack(row)[WORKER_FACTS])
    for name, number in pairs(told.counts or {}) do
        sums[name] = (sums[name] or 0) + number
    end
end
for name, number in pairs(sums) do
    answer[#answer + 1] = name
    answer[#answer + 1] = string.format('%.0f', number)
end
return answer
