-- What changes of nodes beside their jobs: each is read once, and written by `keep_nodes` and `flush`.
local nodes, nodes_changed = {}, {}

local function load_nodes(ids)
    local unread, keys, asked = {}, {}, {}
    for _, id in ipairs(ids) do
        if not nodes[id] and not asked[id] then
            asked[id] = true
            unread[#unread + 1], keys[#keys + 1] = id, partition .. ':g:' .. id
        end
    end
    for first = 1, #keys, 2000 do
        local last = math.min(first + 1999, #keys)
        local found = redis.call('MGET', unpack(keys, first, last))
        for n = first, last do
            local packed_node = found[n - first + 1]
            nodes[unread[n]] = packed_node and cmsgpack.unpack(packed_node) or nil
        end
    end
end

local function keep_nodes()
    for id in pairs(nodes_changed) do
        texts['g:' .. id] = cmsgpack.pack(nodes[id])
    end
    nodes_changed = {}
end
