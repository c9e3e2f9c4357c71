-- Count some jobs of a set by what their records say. Answers the last id, false behind the last job,
-- and then field, number, ….
-- KEYS: partition
-- ARGV: name above limit
-- uses: record names
local ids = redis.call('ZRANGEBYLEX', partition .. ':' .. name, above, '+', 'LIMIT', 0, limit)
local sums, answer = {}, {#ids == tonumber(limit) and ids[#ids] or false}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    if record then
        local field = behind(record[STATE], line(record[QUEUE], record[TASK]))
        sums[field] = (sums[field] or 0) + 1
    end
end
for field, jobs in pairs(sums) do
    answer[#answer + 1] = field
    answer[#answer + 1] = tostring(jobs)
end
return answer
