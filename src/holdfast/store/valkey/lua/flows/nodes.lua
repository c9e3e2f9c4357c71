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
            local row = node_rows[upstream]
            for at = NODE_ROW_WIDTH + 1, #row - 1, 3 do
                waiting[upstream][in_key(row[at], row[at + 1])] = true
            end
        end
    end
    return waiting[upstream]
end

local function undecided(id, serial)
    local edges, key = {}, in_key(id, serial)
    local text = redis.call('GET', partition .. ':' .. key) or ''
    for upstream, wants in string.gmatch(text, '([^:;]+):(%d+);') do
        if waiting_for(upstream)[key] then
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
    local node, edges = nodes[id], {}
    if node and records[id] and records[id][STATE] == 'blocked' then
        for at = NODE_WIDTH, last_gate(node), GATE_WIDTH do
            edges[#edges + 1] = undecided(id, node[at + GATE_SERIAL])
        end
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
