-- Gates and edges. The counts of a gate lie in the record of its node. The sorted set `in:<node>:<n>`
-- has the edges of a gate that are not decided yet: the upstream, and as score the ends that win.
--
-- The sorted set `out:<node>` names the gates that wait for a node, as `<node>:<n>`. It may name a
-- gate that is gone, or that has no such edge: only `in:` says that there is one.
local function gate_key(id, gate)
    return 'in:' .. id .. ':' .. string.format('%.0f', gate[GATE_N])
end

local function is_met(gate)
    return gate[GATE_WON] >= gate[GATE_NEED]
end

local function is_impossible(gate)
    return gate[GATE_LOST] > gate[GATE_TOTAL] - gate[GATE_NEED]
end

-- Whether the end of a node makes its flow fail, if the node is a sink, and the skip of those who
-- need it bad. `holdfast.flow.model.is_bad_end` says the same.
local function is_bad_end(record)
    local state = record[STATE]
    return state == 'failed' or state == 'expired' or (state == 'skipped' and record[NODE][NODE_IS_BAD])
end

-- Count an edge by the end of its upstream. Answers whether the edge is won.
local function count_edge(gate, wants, upstream)
    if bit.band(wants, BITS[upstream[STATE]]) ~= 0 then
        gate[GATE_WON] = gate[GATE_WON] + 1
        return true
    end
    gate[GATE_LOST] = gate[GATE_LOST] + 1
    gate[GATE_IS_BAD] = gate[GATE_IS_BAD] or is_bad_end(upstream)
    return false
end

local function drop_gates(id, record)
    local node = record[NODE]
    for _, gate in ipairs(node[NODE_GATES]) do
        removed[#removed + 1] = partition .. ':' .. gate_key(id, gate)
    end
    if #node[NODE_GATES] > 0 then
        node[NODE_GATES] = {}
        changed[id] = true
    end
end

-- Read the upstreams of gates that are to be added.
local function load_upstreams(gates)
    local ids, seen = {}, {}
    for _, gate in ipairs(gates) do
        local edges = gate[NEW_GATE_EDGES]
        for n = 1, #edges, 2 do
            if not records[edges[n]] and not seen[edges[n]] then
                seen[edges[n]], ids[#ids + 1] = true, edges[n]
            end
        end
    end
    load(ids)
end

-- Add gates to a blocked node, behind those that it has. An upstream that has ended is counted at
-- once: `load_upstreams` must have read those that may have ended.
local function add_gates(id, record, gates)
    local own = record[NODE][NODE_GATES]
    local number = #own > 0 and own[#own][GATE_N] + 1 or 0
    for _, given in ipairs(gates) do
        local edges, gate = given[NEW_GATE_EDGES], {}
        gate[GATE_N], gate[GATE_NEED], gate[GATE_TOTAL] = number, given[NEW_GATE_NEED], #edges / 2
        gate[GATE_WON], gate[GATE_LOST], gate[GATE_IS_BAD] = 0, 0, false
        gate[GATE_LOSERS] = given[NEW_GATE_LOSERS]
        local key = gate_key(id, gate)
        local name = string.sub(key, 4)
        for n = 1, #edges, 2 do
            local upstream = records[edges[n]]
            if upstream and upstream[NODE] and ENDED[upstream[STATE]] then
                count_edge(gate, edges[n + 1], upstream)
            else
                put(key, edges[n], edges[n + 1])
                put('out:' .. edges[n], name, 0)
            end
        end
        own[#own + 1] = gate
        number = number + 1
    end
    changed[id] = true
end

-- Give blocked nodes these gates instead of those that they have.
local function replace_gates(ids, gates_of)
    for _, id in ipairs(ids) do
        load_upstreams(gates_of[id])
        drop_gates(id, records[id])
        add_gates(id, records[id], gates_of[id])
    end
end
