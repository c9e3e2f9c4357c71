-- Remove ended flows whose time to be kept is over, each with its jobs.
-- KEYS: partition
-- ARGV: now limit room
-- uses: time record counts changes names places removal flows node_removal node_names errands
--
-- At most `limit` flows and `room` jobs. The first bite of a flow removes its row and all that lists
-- it, so that nobody finds half a flow. The flow stays in the list of those to remove until its last
-- job is gone. Answers how many flows are gone, and whether there is room for more.
local left, gone, forgotten = tonumber(room), 0, {}

-- Flows whose parent is still to be ended, from what the flow has come to.
local owes_parent

local function load_errands_of_parents()
    owes_parent = {}
    local from = '-'
    while from do
        local some = redis.call('ZRANGEBYLEX', partition .. ':errands', from, '+', 'LIMIT', 0, ERRAND_BATCH)
        for _, errand in ipairs(some) do
            local flow = string.match(errand, '^%x+:%d+:parent:([^:]*)')
            owes_parent[flow or ''] = true
        end
        from = #some == ERRAND_BATCH and '(' .. some[#some]
    end
end

local function is_needed(flow)
    local row = flow_row(flow)
    if not (row and row[FLOW_PARENT]) then
        return false
    end
    if not owes_parent then
        load_errands_of_parents()
    end
    return owes_parent[flow]
end

local function forget(flow)
    local row = flow_row(flow)
    if row then
        put('flows:' .. row[FLOW_STATE], flow, false)
        for _, kind in ipairs({':f:', ':fg:', ':unsettled:', ':skipped:', ':let-go:'}) do
            removed[#removed + 1] = partition .. kind .. flow
        end
        if row[FLOW_PARENT] then
            after_all[#after_all + 1] = {'SREM', partition .. ':ch:' .. row[FLOW_PARENT], flow}
        end
        forgotten[flow] = true
    end
end

-- Remove as many nodes as there is room for. Answers whether none is left.
local function remove_nodes(flow)
    local members, ids = redis.call('ZRANGE', partition .. ':fn:' .. flow, 0, left), {}
    local count_removed = math.min(#members, left)
    for n = 1, count_removed do
        ids[n] = id_of(members[n])
        put('fn:' .. flow, members[n], false)
    end
    load(ids)
    load_nodes(ids)
    for _, id in ipairs(ids) do
        remove_node(id, 'pruned')
    end
    left = left - count_removed
    return #members == count_removed
end

local till = string.format('%.0f', moment)
for _, flow in ipairs(redis.call(
    'ZRANGEBYSCORE', partition .. ':flow-expiry', '-inf', till, 'LIMIT', 0, limit
)) do
    if left > 0 and not is_needed(flow) then
        forget(flow)
        if remove_nodes(flow) then
            put('flow-expiry', flow, false)
            gone = gone + 1
        end
    end
end
if next(forgotten) then
    each_errand(function (errand, _, flow)
        if forgotten[flow] then
            put('errands', errand, false)
        end
    end)
end
flush()
return {gone, left > 0 and 1 or 0}
