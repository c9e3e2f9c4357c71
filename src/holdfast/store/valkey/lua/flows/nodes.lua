-- Some nodes of a flow by name.
-- KEYS: partition
-- ARGV: flow behind limit
-- uses: record gates node_names
--
-- `behind`: where to begin, as ZRANGEBYLEX takes it. Answers for each node its name with its id, its
-- record, its gates, and for each gate the edges that are not decided (upstream, wants, …).
local waiting = {} -- upstream → the gates that wait for it, as a set

local function waiting_for(upstream)
    if not waiting[upstream] then
        local text = redis.call('GET', partition .. ':out:' .. upstream) or ''
        waiting[upstream] = {}
        for gate in string.gmatch(text, '([^:;]+:%d+):%d+;') do
            waiting[upstream][gate] = true
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
load_nodes(ids)
for n, id in ipairs(ids) do
    local edges = {}
    for g, gate in ipairs(nodes[id] and nodes[id][NODE_GATES] or {}) do
        edges[g] = undecided(id, gate)
    end
    answer[n] = {
        members[n],
        redis.call('GET', partition .. ':s:' .. id),
        redis.call('GET', partition .. ':g:' .. id),
        edges
    }
end
return answer
