-- Going on with what could not be decided before: what waits in `unsettled:<flow>`.
-- uses: release
local function settle_flow(flow)
    local key = partition .. ':unsettled:' .. flow
    local found, ids, ended, blocked = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}, {}, {}
    removed[#removed + 1] = key
    for n = 1, #found, 2 do
        ids[#ids + 1] = found[n]
    end
    load(ids)
    load_nodes(ids)
    load_node_rows(ids)
    for n, id in ipairs(ids) do
        local state = records[id] and node_rows[id] and records[id][STATE]
        if ENDED[state] and tonumber(found[2 * n]) == 1 then
            ended[#ended + 1] = id
        elseif state == 'blocked' then
            blocked[#blocked + 1] = id
        end
    end
    judge(blocked)
    decide(ended)
    release_ended()
end
