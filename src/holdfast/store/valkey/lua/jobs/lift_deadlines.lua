-- Let live jobs go on without a deadline.
-- KEYS: partition
-- ARGV: now chosen
-- uses: unrefused time record counts changes names places
--
-- `chosen`: ids. Answers the jobs that had a deadline.
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    if record and LIVE[record[STATE]] and record[DEADLINE_AT] then
        put('deadlines', id, false)
        record[DEADLINE_AT] = false
        changed[id] = true
        answer[#answer + 1] = id
    end
end
flush()
return answer
