-- What workers need to know of nodes, at one moment.
-- KEYS: partition
-- ARGV: chosen
-- uses: record
--
-- `chosen`: up to some thousand ids. Answers the rows of the nodes, false where there is none, the ids of
-- their flows, and the rows of those.
local ids, keys, flows, flow_keys, seen = cmsgpack.unpack(chosen), {}, {}, {}, {}
for n = 1, #ids do
    keys[n] = partition .. ':n:' .. ids[n]
end
local nodes = redis.call('MGET', unpack(keys))
for n = 1, #nodes do
    if nodes[n] then
        local flow = first_of_row(nodes[n])
        if not seen[flow] then
            seen[flow] = true
            flows[#flows + 1], flow_keys[#flow_keys + 1] = flow, partition .. ':f:' .. flow
        end
    end
end
return {nodes, flows, #flows > 0 and redis.call('MGET', unpack(flow_keys)) or {}}
