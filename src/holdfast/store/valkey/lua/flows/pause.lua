-- Release nothing more of running flows.
-- KEYS: partition
-- ARGV: now reason chosen
-- uses: unrefused time record counts changes flows
--
-- `chosen`: ids of flows. Answers those that were running.
local answer = {}
for _, id in ipairs(cmsgpack.unpack(chosen)) do
    local row = flow_row(id)
    if row and row[FLOW_STATE] == 'running' then
        row[FLOW_REASON] = reason ~= '' and reason
        set_flow_state(id, row, 'paused')
        answer[#answer + 1] = id
    end
end
flush()
return answer
