-- Let ended nodes of a flow run again.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise by plan
-- uses: time arrival record counts changes names places queues moves revival undone growth errands node_removal
--
-- `plan`: a ReopeningRow. Answers 1, or 0 if it is refused and nothing is changed.
local given = cmsgpack.unpack(plan)
local flow = given[REOPENING_FLOW]
local row = flow_row(flow)

-- The nodes to reopen, each once; the nodes that are to be blocked, and all their gates; the nodes to remove.
local ids, blocked, gates_of, gone = {}, {}, {}, given[REOPENING_REMOVED]

local function name_nodes()
    local seen = {}
    for _, id in ipairs(given[REOPENING_READY]) do
        ids[#ids + 1], seen[id] = not seen[id] and id or nil, true
    end
    for _, one in ipairs(given[REOPENING_BLOCKED]) do
        ids[#ids + 1], seen[one[1]] = not seen[one[1]] and one[1] or nil, true
    end
    for _, list in ipairs({given[REOPENING_BLOCKED], given[REOPENING_ANEW]}) do
        for _, one in ipairs(list) do
            blocked[#blocked + 1], gates_of[one[1]] = one[1], one[2]
        end
    end
end

-- The cancels that the flow owes, as errands.
local function owed_cancels()
    local found = {}
    each_errand(function (errand, kind, of)
        if of == flow and (kind == 'losers' or kind == 'close') then
            found[#found + 1] = errand
        end
    end)
    return found
end

local function may_reopen()
    if not row or row[FLOW_EPOCH] ~= given[REOPENING_EPOCH] or row[FLOW_STATE] == 'cancelling' then
        return false
    end
    local holder = row[FLOW_KEY] and holder_of_flow_key(row[FLOW_KEY])
    return (not holder or holder == flow) and (row[FLOW_FINISHED_AT] or #owed_cancels() == 0)
end

local function is_ours(id)
    local is_node = records[id] and node_rows[id] and (nodes[id] or not gates_of[id])
    return is_node and node_rows[id][NODE_ROW_FLOW] == flow
end

-- Whether the nodes to reopen or to remove have ended, and those whose gates are counted anew are blocked.
local function are_as_planned()
    for _, list in ipairs({ids, blocked, gone}) do
        load(list)
        load_nodes(list)
        load_node_rows(list)
    end
    for _, list in ipairs({ids, gone}) do
        for _, id in ipairs(list) do
            if not is_ours(id) or not ENDED[records[id][STATE]] or is_undone(id, records[id]) then
                return false
            end
        end
    end
    for _, one in ipairs(given[REOPENING_ANEW]) do
        if not is_ours(one[1]) or records[one[1]][STATE] ~= 'blocked' then
            return false
        end
    end
    return true
end

-- Its edges count by its next end.
local function forget_end(id)
    for _, kept in ipairs({'unsettled:', 'skipped:', 'let-go:'}) do
        put(kept .. flow, id, false)
    end
end

-- Edges may go on to name the nodes that go: their ids are never used again.
local function remove_nodes()
    for _, id in ipairs(gone) do
        put('fn:' .. flow, node_name(node_rows[id][NODE_ROW_NAME], id), false)
        forget_end(id)
        remove_node(id, 'deleted')
        nodes[id], node_rows[id] = nil, nil
    end
    row[FLOW_TOTAL] = row[FLOW_TOTAL] - #gone
end

local function uncount(id)
    if node_rows[id][NODE_ROW_IS_SINK] and is_bad_end(id) then
        row[FLOW_FAILED] = row[FLOW_FAILED] - 1
    end
end

local function reopen()
    for _, errand in ipairs(owed_cancels()) do
        put('errands', errand, false)
    end
    for _, id in ipairs(gone) do
        uncount(id)
    end
    remove_nodes()
    for n, id in ipairs(ids) do
        uncount(id)
        if nodes[id] then
            nodes[id][NODE_IS_BAD], nodes_changed[id] = false, true
        end
        forget_end(id)
        tell(id, seen(records[id]), 'requeued', by, records[id][STATE])
        revive(id, records[id], gates_of[id] and 'blocked' or 'ready', arrive(n % 65536))
    end
    row[FLOW_OPEN], row[FLOW_EPOCH] = row[FLOW_OPEN] + #ids, row[FLOW_EPOCH] + 1
    row[FLOW_CANCEL_ASKED] = false
    row[FLOW_REASON] = row[FLOW_STATE] == 'paused' and row[FLOW_REASON]
    set_flow_state(flow, row, row[FLOW_STATE] == 'paused' and 'paused' or 'running')
    if given[REOPENING_GRAPH] then
        add_graph(flow, given[REOPENING_GRAPH])
    end
end

name_nodes()
if not may_reopen() or not are_as_planned() then
    return 0
end
reopen()
replace_gates(blocked, gates_of)
flush_and_judge(blocked)
return 1
