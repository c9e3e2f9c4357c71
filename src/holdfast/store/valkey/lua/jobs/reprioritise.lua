-- Give waiting jobs another priority; each keeps its arrival number.
-- KEYS: partition
-- ARGV: now priority by chosen
-- uses: unrefused time record counts changes names places
--
-- `chosen`: ids. Answers the changed jobs.
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    if record and WAITING[record[STATE]] then
        answer[#answer + 1] = id
        if record[PRIORITY] ~= tonumber(priority) then
            tell(id, seen(record), 'reprioritised', by, string.format('%.0f', record[PRIORITY]))
            leave(id, record)
            record[PRIORITY] = tonumber(priority)
            enter(id, record)
        end
    end
end
flush()
return answer
