-- Adding nodes to flows.
-- uses: insertion release node_names
local function add_graph(flow, graph)
    after_all[#after_all + 1] = {'RPUSH', partition .. ':fg:' .. flow, graph}
end

local function add_node(flow, given)
    local id = insert_once(given[NEW_NODE_JOB])
    local record = records[id]
    if not changed[id] or record[NODE] then
        error('the id of the node ' .. given[NEW_NODE_NAME] .. ' belongs to another job: ' .. id)
    end
    local node = {}
    node[NODE_FLOW], node[NODE_IS_SINK], node[NODE_IS_BAD] = flow, given[NEW_NODE_IS_SINK], false
    node[NODE_DELAY], node[NODE_GATES] = given[NEW_NODE_DELAY], {}
    node[NODE_SPREAD] = record[SPREAD]
    record[PLAN], record[NODE] = false, node
    texts['n:' .. id] = given[NEW_NODE_ROW]
    put('fn:' .. flow, node_name(given[NEW_NODE_NAME], id), 0)
    add_gates(id, record, given[NEW_NODE_GATES])
    return id, record
end

-- Write what was added, and then judge the gates of these nodes: what is decided already may decide
-- further edges, which are read from what was written.
local function flush_and_judge(ids)
    flush()
    for _, id in ipairs(ids) do
        if records[id][STATE] == 'blocked' then
            judge(id, records[id])
        end
    end
    release_ended()
    flush()
end
