-- Add nodes and gates to a flow that is not over.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise growth
-- uses: time arrival record counts changes names places queues moves growth
--
-- `growth`: a GrowthRow. Answers what became of it, as `holdfast.flow.model.Grown` names it.
local given = cmsgpack.unpack(growth)
local flow, by = given[GROWTH_FLOW], given[GROWTH_BY]
local row = flow_row(flow)

local function is_held()
    load({by})
    local record = records[by]
    return record and record[STATE] == 'running' and record[FENCE] == given[GROWTH_FENCE]
        and record[NODE] and record[NODE][NODE_FLOW] == flow
end

-- The nodes whose names the flow does not have yet.
local function unknown_nodes()
    local new = {}
    for _, node in ipairs(given[GROWTH_NODES]) do
        if not has_node(flow, node[NEW_NODE_NAME]) then
            new[#new + 1] = node
        end
    end
    return new
end

-- Whether all nodes that are to get a gate are blocked, or are added with this growth.
local function are_blocked()
    local named, ids = {}, {}
    for _, node in ipairs(given[GROWTH_NODES]) do
        named[node[NEW_NODE_JOB][JOB_ID]] = true
    end
    for n, target in ipairs(given[GROWTH_GATES]) do
        ids[n] = target[1]
    end
    load(ids)
    for _, id in ipairs(ids) do
        local record = records[id]
        local is_blocked = record and record[STATE] == 'blocked' and record[NODE]
        if not named[id] and not (is_blocked and record[NODE][NODE_FLOW] == flow) then
            return false
        end
    end
    return true
end

local function add(nodes)
    local blocked = {}
    row[FLOW_TOTAL], row[FLOW_OPEN] = row[FLOW_TOTAL] + #nodes, row[FLOW_OPEN] + #nodes
    row[FLOW_EPOCH] = row[FLOW_EPOCH] + 1
    keep_flow(flow)
    if given[GROWTH_GRAPH] then
        add_graph(flow, given[GROWTH_GRAPH])
    end
    for _, node in ipairs(nodes) do
        load_upstreams(node[NEW_NODE_GATES])
        blocked[#blocked + 1] = add_node(flow, node)
    end
    for _, target in ipairs(given[GROWTH_GATES]) do
        if records[target[1]] then
            load_upstreams(target[2])
            add_gates(target[1], records[target[1]], target[2])
            blocked[#blocked + 1] = target[1]
        end
    end
    flush_and_judge(blocked)
end

if not row or not (row[FLOW_STATE] == 'running' or row[FLOW_STATE] == 'paused') then
    return 'over'
elseif not is_held() then
    return 'not held'
end
local new = unknown_nodes()
if #new == 0 and #given[GROWTH_NODES] > 0 then
    return 'grown'
elseif not are_blocked() then
    return 'target gone'
end
add(new)
return 'grown'
