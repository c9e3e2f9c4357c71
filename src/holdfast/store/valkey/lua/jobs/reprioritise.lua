-- Give waiting jobs another priority; each keeps its arrival number.
-- KEYS: partition
-- ARGV: priority chosen
-- uses: unrefused record counts changes names places
--
-- `chosen`: ids. Answers the changed jobs.
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    if record and WAITING[record[STATE]] then
        leave(id, record)
        record[PRIORITY] = tonumber(priority)
        enter(id, record)
        answer[#answer + 1] = id
    end
end
flush()
return answer
