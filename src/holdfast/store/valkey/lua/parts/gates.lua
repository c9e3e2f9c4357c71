-- Gates and edges. The counts of a gate lie with its node (`g:<node>`).
-- uses: nodes
--
-- The row of a node (`n:<node>`) names the gates that wait for its end. A gate that is met or dropped is
-- not removed from there, and neither are gates whose node goes on. A serial number is never used again,
-- so an edge counts if its gate is there and the node of the gate is blocked. The text
-- `in:<node>:<serial>` has the edges of a gate, as `<upstream>:<wants>;` for each, for those who show them.
--
-- Most nodes wait for one other node and for nothing else. Then the edge says so (EDGE_ALONE, beside its wants): if
-- it is won, nobody reads the gate. Whoever gives such a node other gates takes that word back (`count_alone_no_more` in new_gates.lua).
--
-- A row is one list, because a list within a list takes as long to read as all the rest. So the gates lie
-- in the row of their node one behind the other, before its last value, and a gate is known by the place
-- `at` that it begins behind: `node[at + GATE_WON]`. Places: for at = NODE_WIDTH, last_gate(node), GATE_WIDTH.
local function last_gate(node)
    return #node - 1 - GATE_WIDTH
end

local function has_gates(node)
    return last_gate(node) >= NODE_WIDTH
end

-- Let the row of a node end behind this place.
local function cut(node, at)
    local spread = node[#node]
    for n = #node, at + 1, -1 do
        node[n] = nil
    end
    node[at + 1] = spread
end

local function in_key(id, serial)
    return 'in:' .. id .. ':' .. string.format('%.0f', serial)
end

local function is_met(node, at)
    return node[at + GATE_WON] >= node[at + GATE_NEED]
end

local function is_impossible(node, at)
    return node[at + GATE_LOST] > node[at + GATE_TOTAL] - node[at + GATE_NEED]
end

-- Whether the end of a node keeps its flow from succeeding, if the node is a sink, and makes the skip
-- of those who need it bad. `holdfast.flow.model.is_bad_end` says the same.
local function is_bad_end(id)
    local state = records[id][STATE]
    if state == 'skipped' then
        load_nodes({id})
        return nodes[id] and nodes[id][NODE_IS_BAD] or false
    end
    return state == 'failed' or state == 'expired' or state == 'cancelled'
end

-- Count an edge by the end of its upstream. Answers whether the edge is won.
local function count_edge(node, at, wants, upstream)
    if bit.band(wants, BITS[records[upstream][STATE]]) ~= 0 then
        node[at + GATE_WON] = node[at + GATE_WON] + 1
        return true
    end
    node[at + GATE_LOST] = node[at + GATE_LOST] + 1
    node[at + GATE_IS_BAD] = node[at + GATE_IS_BAD] or is_bad_end(upstream)
    return false
end
