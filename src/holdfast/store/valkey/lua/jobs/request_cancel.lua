-- Mark running jobs as to be cancelled and tell their workers.
-- KEYS: partition
-- ARGV: now by why chosen
-- uses: unrefused time record counts changes names places
--
-- `chosen`: ids. Answers the jobs that are running.
local ids, answer = cmsgpack.unpack(chosen), {}
load(ids)
for _, id in ipairs(ids) do
    local record = records[id]
    if record and record[STATE] == 'running' then
        ask_to_cancel(id, record, by, why ~= '' and why)
        answer[#answer + 1] = id
    end
end
flush()
return answer
