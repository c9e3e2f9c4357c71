-- Remove ended jobs with all that belongs to them. Nodes go with their flows.
-- KEYS: partition
-- ARGV: now chosen
-- uses: time record counts changes names places removal undone
--
-- `chosen`: ids. Answers the removed jobs.
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    local is_free = record and ENDED[record[STATE]] and bit.band(record[TIES], TIE_NODE) == 0
    if is_free and not owes_undo(id, record) then
        remove(id, record, 'deleted')
        answer[#answer + 1] = id
    end
end
flush()
return answer
