-- Some nodes of a flow by name.
-- KEYS: partition
-- ARGV: flow behind limit
-- uses: record gates node_names
--
-- `behind`: where to begin, as ZRANGEBYLEX takes it. Answers for each node its name with its id, its
-- record, its two rows, and if it is blocked for each gate the edges that are not decided (upstream,
-- wants, …).
local waiting = {} -- upstream → the gates that wait for it, as a set
local has_unsettled = redis.call('EXISTS', partition .. ':unsettled:' .. flow) == 1

-- An ended node has decided all its edges, unless they were put off.
local function has_decided(id)
    if not records[id] or not ENDED[records[id][STATE]] then
        return false
    end
    local score = has_unsettled and redis.call('ZSCORE', partition .. ':unsettled:' .. flow, id)
    return not score or tonumber(score) ~= 1
end

local function note_waiting(upstream)
    waiting[upstream] = {}
    if node_rows[upstream] and not has_decided(upstream) then
        local row = node_rows[upstream]
        for at = NODE_ROW_WIDTH + 1, #row - 1, 3 do
            waiting[upstream][in_key(row[at], row[at + 1])] = true
        end
    end
end

local function note_all_waiting(upstreams)
    local unknown = {}
    for _, upstream in ipairs(upstreams) do
        if not waiting[upstream] then
            waiting[upstream], unknown[#unknown + 1] = true, upstream -- until it is read
        end
    end
    load(unknown)
    load_node_rows(unknown)
    for _, upstream in ipairs(unknown) do
        note_waiting(upstream)
    end
end

local function undecided(id, serial)
    local upstreams, wants, edges, key = {}, {}, {}, in_key(id, serial)
    local text = redis.call('GET', partition .. ':' .. key) or ''
    for upstream, wanted in string.gmatch(text, '([^:;]+):(%d+);') do
        upstreams[#upstreams + 1], wants[#wants + 1] = upstream, wanted
    end
    note_all_waiting(upstreams)
    for n, upstream in ipairs(upstreams) do
        if waiting[upstream][key] then
            edges[#edges + 1] = upstream
            edges[#edges + 1] = wants[n]
        end
    end
    return edges
end

local function texts_of(kind, ids)
    local keys = {}
    for n = 1, #ids do
        keys[n] = partition .. kind .. ids[n]
    end
    return #keys > 0 and redis.call('MGET', unpack(keys)) or {}
end

-- A record that cannot be read is that of no blocked node.
local function is_blocked(text)
    local is_read, state = pcall(first_values, text, 1)
    return is_read and state == 'blocked'
end

local members = redis.call('ZRANGEBYLEX', partition .. ':fn:' .. flow, behind, '+', 'LIMIT', 0, limit)
local answer, ids = {}, {}
for n, member in ipairs(members) do
    ids[n] = id_of(member)
end
local packed_records, packed_nodes, packed_rows = texts_of(':s:', ids), texts_of(':g:', ids), texts_of(':n:', ids)
for n, id in ipairs(ids) do
    local edges = {}
    if packed_nodes[n] and is_blocked(packed_records[n]) then
        local node = unpacked(packed_nodes[n])
        for at = NODE_WIDTH, last_gate(node), GATE_WIDTH do
            edges[#edges + 1] = undecided(id, node[at + GATE_SERIAL])
        end
    end
    answer[n] = {members[n], packed_records[n], packed_nodes[n], packed_rows[n], edges}
end
return answer
