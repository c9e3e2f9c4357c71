-- Giving nodes gates: when flows start and grow, and when nodes are reopened or mended.
-- uses: gates
-- Let the gates of a node count that had one edge only, because it is to get others.
local function count_alone_no_more(id)
    local text = nodes[id][NODE_MADE] == 1 and redis.call('GET', partition .. ':' .. in_key(id, 0))
    local upstream = text and string.match(text, '^([^:;]+):%d+;$')
    if upstream then
        load_node_rows({upstream})
    end
    local row = upstream and node_rows[upstream] or {}
    for edge = NODE_ROW_WIDTH + 1, #row - 1, 3 do
        if row[edge] == id then
            row[edge + 2], node_rows_changed[upstream] = row[edge + 2] % EDGE_ALONE, true
        end
    end
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
            local is_read, state = pcall(first_values, blob, 1)
            if is_read and ENDED[state] then
                ended[#ended + 1] = ids[n]
            end
        end
    end
    load(ended)
    load_node_rows(ids)
end

-- Let a gate wait for an upstream; one that has ended is counted at once. An upstream that is not there
-- decides nothing, ever.
local function add_edge(id, at, upstream, wants)
    local record, row = records[upstream], node_rows[upstream]
    if row and record and ENDED[record[STATE]] then
        count_edge(nodes[id], at, wants, upstream)
        nodes_changed[id] = true
    elseif row then
        local last = #row
        local spread = row[last]
        row[last], row[last + 1], row[last + 2] = id, nodes[id][at + GATE_SERIAL], wants
        row[last + 3], node_rows_changed[upstream] = spread, true
    end
end

-- Add a gate to a blocked node, behind those that it has. Answers its place.
local function new_gate(id, need, total, losers)
    local node = nodes[id]
    local at, spread, n = #node - 1, node[#node], 0
    count_alone_no_more(id)
    if has_gates(node) then
        n = node[last_gate(node) + GATE_N] + 1
    end
    node[at + GATE_N], node[at + GATE_SERIAL] = n, node[NODE_MADE]
    node[at + GATE_NEED], node[at + GATE_TOTAL] = need, total
    node[at + GATE_WON], node[at + GATE_LOST] = 0, 0
    node[at + GATE_LOSERS], node[at + GATE_IS_BAD] = losers, false
    node[at + GATE_WIDTH + 1], node[NODE_MADE] = spread, node[NODE_MADE] + 1
    return at
end

local function add_gate(id, given)
    local node, edges, named, upstreams = nodes[id], given[NEW_GATE_EDGES], {}, {}
    local at = new_gate(id, given[NEW_GATE_NEED], #edges / 2, given[NEW_GATE_LOSERS])
    for n = 1, #edges, 2 do
        upstreams[#upstreams + 1] = edges[n]
        named[#named + 1] = string.format('%s:%.0f;', edges[n], edges[n + 1])
    end
    load_upstreams(upstreams)
    for n = 1, #edges, 2 do
        add_edge(id, at, edges[n], edges[n + 1])
    end
    texts[in_key(id, node[at + GATE_SERIAL])], nodes_changed[id] = table.concat(named), true
end

local replace_gates

do
    local function drop_gates(id)
        local node = nodes[id]
        count_alone_no_more(id)
        if has_gates(node) then
            for at = NODE_WIDTH, last_gate(node), GATE_WIDTH do
                removed[#removed + 1] = partition .. ':' .. in_key(id, node[at + GATE_SERIAL])
            end
            cut(node, NODE_WIDTH)
            nodes_changed[id] = true
        end
    end

    -- Give blocked nodes these gates instead of those that they have.
    function replace_gates(ids, gates_of)
        load_nodes(ids)
        for _, id in ipairs(ids) do
            drop_gates(id)
            for _, gate in ipairs(gates_of[id]) do
                add_gate(id, gate)
            end
        end
    end
end
