-- The jobs that a bucket counts, the oldest first: id, task, worker and when it was claimed.
-- KEYS: partition
-- ARGV: bucket limit
-- uses: held
local found, answer = {}, {}
for id, record in pairs(load_held()) do
    local passes = string.find('\n' .. (record[BUCKETS] or '') .. '\n', '\n' .. bucket .. '\n', 1, true)
    if passes or record[TOTAL] == bucket then
        found[#found + 1] = {id, record}
    end
end
table.sort(found, function(one, other)
    local first, second = one[2][CLAIMED_AT], other[2][CLAIMED_AT]
    return first < second or (first == second and one[1] < other[1])
end)
for n = 1, math.min(#found, tonumber(limit)) do
    local record = found[n][2]
    for _, value in ipairs({found[n][1], record[TASK], record[WORKER], string.format('%.0f', record[CLAIMED_AT])}) do
        answer[#answer + 1] = value
    end
end
return answer
