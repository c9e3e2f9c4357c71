-- What workers need to know of nodes, at one moment.
-- KEYS: partition
-- ARGV: chosen
--
-- `chosen`: ids. Answers the rows of nodes (id, row, …), and the rows of their flows (id, row, …).
local nodes, flows, seen = {}, {}, {}
for _, id in ipairs(cmsgpack.unpack(chosen)) do
    local packed = redis.call('GET', partition .. ':n:' .. id)
    local flow = packed and cmsgpack.unpack(packed)[NODE_ROW_FLOW]
    if flow then
        nodes[#nodes + 1] = id
        nodes[#nodes + 1] = packed
    end
    if flow and not seen[flow] then
        seen[flow] = true
        flows[#flows + 1] = flow
        flows[#flows + 1] = redis.call('GET', partition .. ':f:' .. flow)
    end
end
return {nodes, flows}
