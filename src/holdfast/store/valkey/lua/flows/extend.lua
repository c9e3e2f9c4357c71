-- Add nodes and gates to a flow that is not over.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise growth
-- uses: time arrival record counts changes names places queues moves elements
--
-- `growth`: a GrowthRow. Answers what became of it, as `holdfast.flow.model.Grown` names it. Or nothing is
-- changed, and the answer is name, id, … of those of its nodes that the flow has already: then the caller
-- has to leave these out. Elements of which the flow may have some, or behind which a node waits no more, are
-- answered with `known`: then the caller has to write them out as nodes.
local given = cmsgpack.unpack(growth)
local flow, by, added = given[GROWTH_FLOW], given[GROWTH_BY], given[GROWTH_NODES]
local row, elements = flow_row(flow), given[GROWTH_ELEMENTS]

local function is_held()
    load({by})
    load_node_rows({by})
    local record = records[by]
    return record and record[STATE] == 'running' and record[FENCE] == given[GROWTH_FENCE]
        and node_rows[by] and node_rows[by][NODE_ROW_FLOW] == flow
end

-- The nodes of the growth that the flow has already: name, id, …
local function known_nodes()
    local found, names = {}, added[NEW_NODES_NAMES]
    for n = 1, #names, 2 do
        local id = node_named(flow, names[n])
        if id then
            found[#found + 1], found[#found + 2] = names[n], id
        end
    end
    return found
end

-- Whether these gates have been added before: gates without nodes are known by their graph.
local function has_grown_before()
    return #added[NEW_NODES_NAMES] == 0
        and redis.call('LPOS', partition .. ':fg:' .. flow, given[GROWTH_GRAPH])
end

local function is_blocked(id)
    local record, node = records[id], nodes[id]
    return record and record[STATE] == 'blocked' and node and node[NODE_FLOW] == flow
end

-- Whether the node was skipped for no bad end: its gates count when the flow ends.
local function is_skipped(id)
    local record, node = records[id], nodes[id]
    return record and record[STATE] == 'skipped' and node and node[NODE_FLOW] == flow and not node[NODE_IS_BAD]
end

-- Whether all nodes behind the elements are blocked.
local function are_blocked()
    local behind = elements[ELEMENTS_BEHIND]
    for n = 1, #behind, 2 do
        load({behind[n]})
        load_nodes({behind[n]})
        if not is_blocked(behind[n]) then
            return false
        end
    end
    return true
end

-- Leave out the gates of nodes that wait no more. Answers whether that may be.
local function leave_out_gone()
    local ids, is_new, left = {}, {}, {}
    for n, target in ipairs(given[GROWTH_GATES]) do
        ids[n] = target[1]
    end
    for n = 2, #added[NEW_NODES_NAMES], 2 do
        is_new[added[NEW_NODES_NAMES][n]] = true
    end
    load(ids)
    load_nodes(ids)
    for n, id in ipairs(ids) do
        if is_new[id] or is_blocked(id) then
            left[#left + 1] = given[GROWTH_GATES][n]
        elseif not given[GROWTH_LEAVES_OUT_GONE] then
            return false
        elseif is_skipped(id) then
            left[#left + 1] = given[GROWTH_GATES][n]
        end
    end
    given[GROWTH_GATES] = left
    return true
end

-- The flow has so many nodes more.
local function note_growth(count_added)
    row[FLOW_TOTAL], row[FLOW_OPEN] = row[FLOW_TOTAL] + count_added, row[FLOW_OPEN] + count_added
    row[FLOW_EPOCH] = row[FLOW_EPOCH] + 1
    keep_flow(flow)
    add_graph(flow, given[GROWTH_GRAPH])
end

local function add()
    note_growth(#added[NEW_NODES_NAMES] / 2)
    add_nodes(flow, added)
    flush()
    local decided = add_edges(added)
    for _, target in ipairs(given[GROWTH_GATES]) do
        local id = target[1]
        load_nodes({id})
        for _, gate in ipairs(target[2]) do
            add_gate(id, gate)
        end
        decided[#decided + 1] = id
    end
    flush_and_judge(decided)
end

if not row or not (row[FLOW_STATE] == 'running' or row[FLOW_STATE] == 'paused') then
    return 'over'
elseif not is_held() then
    return 'not held'
end
if elements then
    if may_have_elements(flow, elements) or not are_blocked() then
        return 'known'
    end
    note_growth(#elements[ELEMENTS_IDS])
    add_elements(flow, elements)
    return 'grown'
end
local known = known_nodes()
if #known > 0 then
    return known
elseif has_grown_before() then
    return 'grown'
elseif given[GROWTH_EPOCH] and given[GROWTH_EPOCH] ~= row[FLOW_EPOCH] then
    return 'changed'
elseif not leave_out_gone() then
    return 'target gone'
end
add()
return 'grown'
