-- Ask for the cancel of live flows.
-- KEYS: partition
-- ARGV: now what reason chosen
-- uses: unrefused time record counts changes flows
--
-- `what`: the nodes that are meant; unless these are the blocked nodes alone, the flow is cancelling
-- from now on. `chosen`: ids of flows. Answers those that are live.
local answer = {}
for _, id in ipairs(cmsgpack.unpack(chosen)) do
    local row = flow_row(id)
    if row and not row[FLOW_FINISHED_AT] then
        if what ~= 'blocked' then
            row[FLOW_CANCEL_ASKED], row[FLOW_EPOCH] = true, row[FLOW_EPOCH] + 1
            row[FLOW_REASON] = reason ~= '' and reason
            set_flow_state(id, row, 'cancelling')
        end
        owe(id, 'close', nil, what)
        answer[#answer + 1] = id
    end
end
flush()
return answer
