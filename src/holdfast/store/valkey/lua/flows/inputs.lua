-- What workers need to know of nodes, at one moment.
-- KEYS: partition
-- ARGV: chosen
-- uses: record
--
-- `chosen`: ids.
local INPUTS_BATCH = 1000

-- A row that cannot be read names no flow: then the node is told without one, as if it had no row.
local function flows_of(rows)
    local flows, keys, seen = {}, {}, {}
    for n = 1, #rows do
        local is_read, flow = pcall(first_values, rows[n], 1)
        if is_read and type(flow) == 'string' and not seen[flow] then
            seen[flow] = true
            flows[#flows + 1], keys[#keys + 1] = flow, partition .. ':f:' .. flow
        end
    end
    return flows, keys
end

-- Lists of four values, each for some of these nodes: their ids, their rows (false where there is none),
-- the ids of their flows, and the rows of those.
local function inputs_of(ids)
    local answer = {}
    for first = 1, #ids, INPUTS_BATCH do
        local some, keys = {}, {}
        for n = first, math.min(first + INPUTS_BATCH - 1, #ids) do
            some[#some + 1], keys[#keys + 1] = ids[n], partition .. ':n:' .. ids[n]
        end
        local rows = redis.call('MGET', unpack(keys))
        local flows, flow_keys = flows_of(rows)
        answer[#answer + 1] = {some, rows, flows, #flows > 0 and redis.call('MGET', unpack(flow_keys)) or {}}
    end
    return answer
end

return inputs_of(cmsgpack.unpack(chosen))
