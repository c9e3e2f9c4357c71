-- Insert whole flows, each with its nodes, gates and edges.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise flows
-- uses: time arrival record counts changes names places queues moves growth
--
-- `flows`: a NewFlowRow each. Answers id, how, id, how, … in the order given.
local answer, inserted, decided = {}, {}, {}

local function insert_flow(given)
    local id = given[NEW_FLOW_ID]
    new_flow(id, given[NEW_FLOW_ROW])
    add_graph(id, given[NEW_FLOW_GRAPH])
    add_nodes(id, given[NEW_FLOW_NODES])
    inserted[#inserted + 1] = given[NEW_FLOW_NODES]
end

-- Tie the parent of a flow to it. Answers whether the parent runs with its fence. A flow that undoes
-- what its parent has done has the fence -1: its parent has ended.
local function hold_parent(parent, fence, flow)
    if parent == string.sub(flow, 1, 14) .. 'b' .. string.sub(flow, 16) then
        return true -- nobody is its parent: `watcher_id` in holdfast/flow/ids.py
    elseif fence == -1 then
        after_all[#after_all + 1] = {'SADD', partition .. ':ch:' .. parent, flow}
        return true
    end
    load({parent})
    local record = records[parent]
    if not record or record[STATE] ~= 'running' or record[FENCE] ~= fence then
        return false
    end
    record[TIES], changed[parent] = bit.bor(record[TIES], TIE_PARENT), true
    after_all[#after_all + 1] = {'SADD', partition .. ':ch:' .. parent, flow}
    return true
end

-- The flow that stands for this one, and how it came to be.
local function start(given)
    local id, row = given[NEW_FLOW_ID], given[NEW_FLOW_ROW]
    local known, holder = flow_row(id), row[FLOW_KEY] and holder_of_flow_key(row[FLOW_KEY])
    if known then
        return id, known[FLOW_NAME] == row[FLOW_NAME] and 'created' or 'taken'
    elseif holder then
        return holder, 'existing'
    elseif row[FLOW_PARENT] and not hold_parent(row[FLOW_PARENT], given[NEW_FLOW_FENCE], id) then
        return id, 'not held'
    end
    insert_flow(given)
    return id, 'created'
end

for _, given in ipairs(cmsgpack.unpack(flows)) do
    local id, how = start(given)
    answer[#answer + 1] = id
    answer[#answer + 1] = how
end
flush()
for _, nodes_row in ipairs(inserted) do
    for _, node in ipairs(add_edges(nodes_row)) do
        decided[#decided + 1] = node
    end
end
if #decided > 0 then
    flush_and_judge(decided)
end
return answer
