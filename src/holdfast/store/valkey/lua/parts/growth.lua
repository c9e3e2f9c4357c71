-- Adding nodes to flows.
-- uses: insertion release new_gates node_names
local function add_graph(flow, graph)
    after_all[#after_all + 1] = {'RPUSH', partition .. ':fg:' .. flow, graph}
end

local function refuse_known(ids)
    for first = 1, #ids, ARGUMENT_BATCH do
        local last = math.min(first + ARGUMENT_BATCH - 1, #ids)
        if redis.call('EXISTS', unpack(ids, first, last)) > 0 then
            error('the id of a node belongs to another job: new_node_id mints new ones')
        end
    end
end

-- Add the jobs of nodes that are plain but for their flow, from records that Python has packed. What
-- is left to do here is what `insertion` does for a job that is ready or blocked, line by line.
local function add_lines(lines)
    local at_moment, keys, pieces, live = cmsgpack.pack(moment), {}, {}, members_of('live')
    for _, shared in ipairs(lines) do
        local jobs, is_blocked = shared[NODE_LINE_JOBS], shared[NODE_LINE_IS_BLOCKED]
        local name = line(shared[NODE_LINE_QUEUE], shared[NODE_LINE_TASK])
        local state, before_seq = is_blocked and 'blocked' or 'ready', shared[NODE_LINE_BEFORE_SEQ]
        local ready_at = is_blocked and cmsgpack.pack(false) or at_moment
        local members = members_of(is_blocked and 'untimed:blocked' or behind('ready', name))
        local behind_seq = shared[NODE_LINE_BEFORE_READY_AT] .. ready_at
            .. shared[NODE_LINE_BEFORE_CREATED_AT] .. at_moment .. shared[NODE_LINE_BEFORE_SPREAD]
        for n = 1, #jobs, 2 do
            local id, index, last = jobs[n], jobs[n + 1], #keys
            local key, seq = partition .. ':s:' .. id, arrive(index)
            keys[last + 1], pieces[2 * last + 1] = key, key
            pieces[2 * last + 2] = before_seq .. seq .. behind_seq .. string.char(index % SPREADS)
            live[id] = 0
            if is_blocked then
                members[id] = 0
            else
                members[seq .. id] = shared[NODE_LINE_PRIORITY]
            end
        end
        if not is_blocked then
            local ready = behind('ready', name)
            lines_touched[ready] = {shared[NODE_LINE_QUEUE], shared[NODE_LINE_TASK]}
            local message = 'ready:' .. shared[NODE_LINE_QUEUE]
            woken[message] = (woken[message] or 0) + #jobs / 2
        end
        count(behind(state, name), #jobs / 2)
        note_line('enqueued', name, #jobs / 2)
    end
    refuse_known(keys)
    ready_made[#ready_made + 1] = pieces
end

-- Add nodes, given as a NewNodesRow.
local function add_nodes(flow, given)
    local names, members = given[NEW_NODES_NAMES], members_of('fn:' .. flow)
    for _, job in ipairs(given[NEW_NODES_JOBS]) do
        local id, how = insert_once(job)
        if how ~= 'created' or not changed[id] then
            error('a node must have an id and a unique key of its own: ' .. job[JOB_ID])
        end
    end
    add_lines(given[NEW_NODES_LINES])
    ready_made[#ready_made + 1] = given[NEW_NODES_TEXTS]
    for n = 1, #names, 2 do
        members[node_name(names[n], names[n + 1])] = 0
    end
end

-- Let nodes that were added and written wait for others. Edges to upstreams that have ended are
-- counted at once. Answers the nodes whose gates may be decided by now.
local function add_edges(given)
    local decided, edges, ids, upstreams = {}, given[NEW_NODES_EDGES], {}, {}
    for n = 1, #edges, 4 do
        upstreams[#upstreams + 1], ids[#ids + 1] = edges[n], edges[n + 1]
    end
    load_upstreams(upstreams)
    load_nodes(ids)
    for n = 1, #edges, 4 do
        local id, serial = edges[n + 1], edges[n + 2]
        add_edge(id, NODE_WIDTH + serial * GATE_WIDTH, edges[n], edges[n + 3])
        decided[#decided + 1] = id
    end
    return decided
end

-- Write what was added, and then judge the gates of these nodes: what is decided already may decide
-- further edges, which are read from what was written.
local function flush_and_judge(ids)
    keep_nodes()
    flush()
    if #ids > 0 then
        local once, seen = {}, {}
        for _, id in ipairs(ids) do
            if not seen[id] then
                seen[id], once[#once + 1] = true, id
            end
        end
        load_nodes(once)
        judge(once)
        release_ended()
        flush()
    end
end
