-- Put waiting jobs in another queue.
-- KEYS: partition
-- ARGV: queue chosen
-- uses: unrefused record counts changes names places
--
-- `chosen`: ids. Answers those moved.
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    if record and LIVE[record[STATE]] and record[STATE] ~= 'running' then
        leave(id, record)
        record[QUEUE] = queue
        enter(id, record)
        answer[#answer + 1] = id
    end
end
if #answer > 0 then
    wake('ready:' .. queue)
end
flush()
return answer
