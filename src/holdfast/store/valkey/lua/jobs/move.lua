-- Put waiting jobs in another queue.
-- KEYS: partition
-- ARGV: now queue by chosen
-- uses: unrefused time record counts changes names places
--
-- `chosen`: ids. Answers the moved jobs.
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    if record and WAITING[record[STATE]] then
        leave(id, record)
        if record[QUEUE] ~= queue then
            tell(id, seen(record), 'moved', by, record[QUEUE])
            note('moved', record)
            record[QUEUE] = queue
            note('moved', record)
        end
        enter(id, record)
        answer[#answer + 1] = id
        if record[STATE] == 'ready' then
            wake('ready:' .. queue)
        end
    end
end
flush()
return answer
