-- Replace the gates of blocked nodes by those that the graph says, and count the nodes anew.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise plan
-- uses: unrefused time arrival record counts changes names places queues moves growth
--
-- `plan`: a MendingRow. Answers 1, or 0 if the epoch of the flow is another. A flow that has ended and
-- has live nodes runs again, unless another flow has its key by now.
local given = cmsgpack.unpack(plan)
local flow = given[MENDING_FLOW]
local row = flow_row(flow)
if not row or row[FLOW_EPOCH] ~= given[MENDING_EPOCH] then
    return 0
end
local holder = row[FLOW_KEY] and holder_of_flow_key(row[FLOW_KEY])
if holder and holder ~= flow then
    return 0
end

-- All nodes are read, so all that the plan may name: what it names besides is not in the flow.
local ids, live, failed = nodes_of(flow), 0, 0
load(ids)
load_nodes(ids)
load_node_rows(ids)
for _, id in ipairs(ids) do
    local record, node = records[id], node_rows[id]
    if record and LIVE[record[STATE]] then
        live = live + 1
    elseif record and node and node[NODE_ROW_IS_SINK] and is_bad_end(id) then
        failed = failed + 1
    end
end
row[FLOW_OPEN], row[FLOW_FAILED] = live, failed
if row[FLOW_FINISHED_AT] and live > 0 then
    set_flow_state(flow, row, 'running')
end
keep_flow(flow)

local blocked, gates_of = {}, {}
for _, one in ipairs(given[MENDING_GATES]) do
    local id, record = one[1], records[one[1]]
    if record and record[STATE] == 'blocked' and nodes[id] then
        blocked[#blocked + 1], gates_of[id] = id, one[2]
    end
end
replace_gates(blocked, gates_of)
flush_and_judge(blocked)
if row[FLOW_OPEN] == 0 and not row[FLOW_FINISHED_AT] then
    finish_flow(flow)
    keep_flow(flow)
    keep_nodes()
    flush()
end
return 1
