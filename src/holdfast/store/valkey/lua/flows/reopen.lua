-- Let ended nodes of a flow run again.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise plan
-- uses: time arrival record counts changes names places queues moves revival growth
--
-- `plan`: a ReopeningRow. Answers 1, or 0 if it is refused and nothing is changed.
local given = cmsgpack.unpack(plan)
local flow = given[REOPENING_FLOW]
local row = flow_row(flow)

local function may_reopen()
    if not row or row[FLOW_EPOCH] ~= given[REOPENING_EPOCH] or row[FLOW_STATE] == 'cancelling' then
        return false
    end
    local holder = row[FLOW_KEY] and holder_of_flow_key(row[FLOW_KEY])
    return not holder or holder == flow
end

-- The named nodes, each once, and the gates of those that are to be blocked.
local ids, gates_of, gates = {}, {}, {}
local seen = {}
for _, id in ipairs(given[REOPENING_READY]) do
    ids[#ids + 1], seen[id] = not seen[id] and id or nil, true
end
for _, one in ipairs(given[REOPENING_BLOCKED]) do
    ids[#ids + 1], seen[one[1]] = not seen[one[1]] and one[1] or nil, true
    gates_of[one[1]], gates[#gates + 1] = one[2], one[2]
end

local function have_ended()
    load(ids)
    for _, id in ipairs(ids) do
        local record = records[id]
        local node = record and record[NODE]
        if not node or node[NODE_FLOW] ~= flow or not ENDED[record[STATE]] then
            return false
        end
    end
    return true
end

local function reopen()
    for n, id in ipairs(ids) do
        local record = records[id]
        local node = record[NODE]
        if node[NODE_IS_SINK] and is_bad_end(record) then
            row[FLOW_FAILED] = row[FLOW_FAILED] - 1
        end
        node[NODE_IS_BAD] = false
        revive(id, record, gates_of[id] and 'blocked' or 'ready', arrive(n % 65536))
    end
    row[FLOW_OPEN], row[FLOW_EPOCH] = row[FLOW_OPEN] + #ids, row[FLOW_EPOCH] + 1
    row[FLOW_CANCEL_ASKED] = false
    set_flow_state(flow, row, row[FLOW_STATE] == 'paused' and 'paused' or 'running')
end

if not may_reopen() or not have_ended() then
    return 0
end
reopen()
load_upstreams(gates)
local blocked = {}
for id, some in pairs(gates_of) do
    add_gates(id, records[id], some)
    blocked[#blocked + 1] = id
end
flush_and_judge(blocked)
return 1
