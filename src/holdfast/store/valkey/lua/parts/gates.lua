-- Gates and edges. The counts of a gate lie with its node (`g:<node>`).
-- uses: nodes
--
-- The row of a node (`n:<node>`) names the gates that wait for its end. A gate that is met or dropped is
-- not removed from there, and neither are gates whose node goes on. A serial number is never used again,
-- so an edge counts if its gate is there and the node of the gate is blocked. The text
-- `in:<node>:<serial>` has the edges of a gate, as `<upstream>:<wants>;` for each, for those who show them.
local function in_key(id, gate)
    return 'in:' .. id .. ':' .. string.format('%.0f', gate[GATE_SERIAL])
end

local function is_met(gate)
    return gate[GATE_WON] >= gate[GATE_NEED]
end

local function is_impossible(gate)
    return gate[GATE_LOST] > gate[GATE_TOTAL] - gate[GATE_NEED]
end

-- Whether the end of a node keeps its flow from succeeding, if the node is a sink, and makes the skip
-- of those who need it bad. `holdfast.flow.model.is_bad_end` says the same.
local BAD = {failed = true, expired = true, cancelled = true}

local function is_bad_end(id)
    local state = records[id][STATE]
    if state == 'skipped' then
        load_nodes({id})
        return nodes[id] and nodes[id][NODE_IS_BAD]
    end
    return BAD[state] or false
end

-- Count an edge by the end of its upstream. Answers whether the edge is won.
local function count_edge(gate, wants, upstream)
    if bit.band(wants, BITS[records[upstream][STATE]]) ~= 0 then
        gate[GATE_WON] = gate[GATE_WON] + 1
        return true
    end
    gate[GATE_LOST] = gate[GATE_LOST] + 1
    gate[GATE_IS_BAD] = gate[GATE_IS_BAD] or is_bad_end(upstream)
    return false
end

local function drop_gates(id)
    local node = nodes[id]
    for _, gate in ipairs(node[NODE_GATES]) do
        removed[#removed + 1] = partition .. ':' .. in_key(id, gate)
    end
    if #node[NODE_GATES] > 0 then
        node[NODE_GATES], nodes_changed[id] = {}, true
    end
end

-- The state that a packed record begins with, behind the three bytes of its list.
local function state_of(blob)
    local is_read, _, state = pcall(cmsgpack.unpack_limit, blob, 1, 3)
    return is_read and state
end

-- Read these upstreams. Those that have ended are read whole, because their ends count at once: a node
-- may wait for thousands that have not.
local function load_upstreams(ids)
    local keys, ended = {}, {}
    for n = 1, #ids do
        keys[n] = partition .. ':s:' .. ids[n]
    end
    for first = 1, #keys, 2000 do
        local last = math.min(first + 1999, #keys)
        local found = redis.call('MGET', unpack(keys, first, last))
        for n = first, last do
            local blob = found[n - first + 1]
            if blob and ENDED[state_of(blob)] then
                ended[#ended + 1] = ids[n]
            end
        end
    end
    load(ended)
    load_node_rows(ids)
end

-- Let a gate wait for an upstream; one that has ended is counted at once. An upstream that is not there
-- decides nothing, ever.
local function add_edge(id, gate, upstream, wants)
    local record, row = records[upstream], node_rows[upstream]
    if row and record and ENDED[record[STATE]] then
        count_edge(gate, wants, upstream)
        nodes_changed[id] = true
    elseif row then
        row[NODE_ROW_OUT] = row[NODE_ROW_OUT] .. string.format('%s:%.0f:%.0f;', id, gate[GATE_SERIAL], wants)
        node_rows_changed[upstream] = true
    end
end

-- Add a gate to a blocked node, behind those that it has.
local function add_gate(id, given)
    local node, edges, gate, named, upstreams = nodes[id], given[NEW_GATE_EDGES], {}, {}, {}
    local own = node[NODE_GATES]
    gate[GATE_N], gate[GATE_SERIAL] = #own > 0 and own[#own][GATE_N] + 1 or 0, node[NODE_MADE]
    gate[GATE_NEED], gate[GATE_TOTAL] = given[NEW_GATE_NEED], #edges / 2
    gate[GATE_WON], gate[GATE_LOST], gate[GATE_IS_BAD] = 0, 0, false
    gate[GATE_LOSERS] = given[NEW_GATE_LOSERS]
    for n = 1, #edges, 2 do
        upstreams[#upstreams + 1] = edges[n]
        named[#named + 1] = string.format('%s:%.0f;', edges[n], edges[n + 1])
    end
    load_upstreams(upstreams)
    for n = 1, #edges, 2 do
        add_edge(id, gate, edges[n], edges[n + 1])
    end
    texts[in_key(id, gate)] = table.concat(named)
    own[#own + 1], node[NODE_MADE], nodes_changed[id] = gate, node[NODE_MADE] + 1, true
end

-- Give blocked nodes these gates instead of those that they have.
local function replace_gates(ids, gates_of)
    load_nodes(ids)
    for _, id in ipairs(ids) do
        drop_gates(id)
        for _, gate in ipairs(gates_of[id]) do
            add_gate(id, gate)
        end
    end
end
