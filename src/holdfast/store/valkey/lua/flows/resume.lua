-- Let paused flows go on, and release or skip what was decided meanwhile.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise chosen
-- uses: unrefused time arrival record counts changes names places queues moves unsettled
--
-- `chosen`: ids of flows. Answers those that were paused.
local answer = {}
for _, id in ipairs(cmsgpack.unpack(chosen)) do
    local row = flow_row(id)
    if row and row[FLOW_STATE] == 'paused' then
        row[FLOW_REASON] = false
        set_flow_state(id, row, 'running')
        settle_flow(id)
        answer[#answer + 1] = id
    end
end
flush()
return answer
