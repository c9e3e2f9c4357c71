-- Add nodes and gates to a flow that is not over.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise growth
-- uses: time arrival record counts changes names places queues moves growth
--
-- `growth`: a GrowthRow. Answers what became of it, as `holdfast.flow.model.Grown` names it; or, and
-- nothing is changed, name, id, … of those of its nodes that the flow has already: then the caller has
-- to leave these out.
local given = cmsgpack.unpack(growth)
local flow, by, added = given[GROWTH_FLOW], given[GROWTH_BY], given[GROWTH_NODES]
local row = flow_row(flow)

local function is_held()
    load({by})
    load_nodes({by})
    local record = records[by]
    return record and record[STATE] == 'running' and record[FENCE] == given[GROWTH_FENCE]
        and nodes[by] and nodes[by][NODE_FLOW] == flow
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

-- Whether all nodes that are to get a gate are blocked, or are added with this growth.
local function are_blocked()
    local ids, is_new = {}, {}
    for n = 2, #added[NEW_NODES_NAMES], 2 do
        is_new[added[NEW_NODES_NAMES][n]] = true
    end
    for n, target in ipairs(given[GROWTH_GATES]) do
        ids[n] = target[1]
    end
    load(ids)
    load_nodes(ids)
    for _, id in ipairs(ids) do
        local is_blocked = records[id] and records[id][STATE] == 'blocked'
        if not is_new[id] and not (is_blocked and nodes[id] and nodes[id][NODE_FLOW] == flow) then
            return false
        end
    end
    return true
end

local function add()
    local count_added = #added[NEW_NODES_NAMES] / 2
    row[FLOW_TOTAL], row[FLOW_OPEN] = row[FLOW_TOTAL] + count_added, row[FLOW_OPEN] + count_added
    row[FLOW_EPOCH] = row[FLOW_EPOCH] + 1
    keep_flow(flow)
    add_graph(flow, given[GROWTH_GRAPH])
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
local known = known_nodes()
if #known > 0 then
    return known
elseif has_grown_before() then
    return 'grown'
elseif not are_blocked() then
    return 'target gone'
end
add()
return 'grown'
