-- Some nodes of a flow by name.
-- KEYS: partition
-- ARGV: flow behind limit
-- uses: record gates node_names
--
-- `behind`: where to begin, as ZRANGEBYLEX takes it. Answers for each node its name with its id, its
-- record, its two rows, and if it is blocked for each gate the edges that are not decided (upstream,
-- wants, …).
local waiting = {} -- upstream → the gates that wait for it, as a set

-- An ended node has decided all its edges, unless they were put off.
local function has_decided(id)
    if not records[id] or not ENDED[records[id][STATE]] then
        return false
    end
    local score = redis.call('ZSCORE', partition .. ':unsettled:' .. flow, id)
    return not score or tonumber(score) ~= 1
end

local function waiting_for(upstream)
    if not waiting[upstream] then
        waiting[upstream] = {}
        load({upstream})
        load_node_rows({upstream})
        if node_rows[upstream] and not has_decided(upstream) then
            for gate in string.gmatch(node_rows[upstream][NODE_ROW_OUT], '([^:;]+:%d+):%d+;') do
                waiting[upstream][gate] = true
            end
        end
    end
    return waiting[upstream]
end

local function undecided(id, gate)
    local edges, key = {}, in_key(id, gate)
    local text = redis.call('GET', partition .. ':' .. key) or ''
    for upstream, wants in string.gmatch(text, '([^:;]+):(%d+);') do
        if waiting_for(upstream)[string.sub(key, 4)] then
            edges[#edges + 1] = upstream
            edges[#edges + 1] = wants
        end
    end
    return edges
end

local members = redis.call('ZRANGEBYLEX', partition .. ':fn:' .. flow, behind, '+', 'LIMIT', 0, limit)
local answer, ids = {}, {}
for n, member in ipairs(members) do
    ids[n] = id_of(member)
end
load(ids)
load_nodes(ids)
for n, id in ipairs(ids) do
    local is_blocked, edges = records[id] and records[id][STATE] == 'blocked', {}
    for g, gate in ipairs(is_blocked and nodes[id] and nodes[id][NODE_GATES] or {}) do
        edges[g] = undecided(id, gate)
    end
    answer[n] = {
        members[n],
        redis.call('GET', partition .. ':s:' .. id),
        redis.call('GET', partition .. ':g:' .. id),
        redis.call('GET', partition .. ':n:' .. id),
        edges
    }
end
return answer
