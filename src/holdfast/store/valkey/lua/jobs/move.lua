-- Put waiting jobs in another queue.
-- KEYS: partition
-- ARGV: queue chosen
-- uses: unrefused record counts changes names places
--
-- `chosen`: ids. Answers the moved jobs.
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    if record and WAITING[record[STATE]] then
        leave(id, record)
        record[QUEUE] = queue
        enter(id, record)
        answer[#answer + 1] = id
        if record[STATE] == 'ready' then
            wake('ready:' .. queue)
        end
    end
end
flush()
return answer
