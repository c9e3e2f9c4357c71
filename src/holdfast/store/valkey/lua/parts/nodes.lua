-- The rows of nodes beside their jobs: each is read once, and written by `keep_nodes` and `flush`.
-- `nodes` has what others change of a node (`g:<node>`), if it ever had a gate. `node_rows` has what a node
-- begins and ends with (`n:<node>`). Most scripts read the first of nodes that wait, and the second of nodes that end.
local nodes, nodes_changed, node_rows, node_rows_changed = {}, {}, {}, {}

local load_nodes, load_node_rows

do
    local function load_into(rows, kind, ids)
        local unread, keys, count_unread = {}, {}, 0
        for n = 1, #ids do
            local id = ids[n]
            if rows[id] == nil then
                rows[id] = false -- until it is read
                count_unread = count_unread + 1
                unread[count_unread], keys[count_unread] = id, kind .. id
            end
        end
        for first = 1, count_unread, 2000 do
            local last = math.min(first + 1999, count_unread)
            local found = redis.call('MGET', unpack(keys, first, last))
            for n = first, last do
                local packed_row = found[n - first + 1]
                rows[unread[n]] = packed_row and unpacked(packed_row) or nil
            end
        end
    end

    function load_nodes(ids)
        load_into(nodes, partition .. ':g:', ids)
    end

    function load_node_rows(ids)
        load_into(node_rows, partition .. ':n:', ids)
    end
end

local function keep_nodes()
    for id in pairs(nodes_changed) do
        texts['g:' .. id] = cmsgpack.pack(nodes[id])
    end
    for id in pairs(node_rows_changed) do
        texts['n:' .. id] = cmsgpack.pack(node_rows[id])
    end
    nodes_changed, node_rows_changed = {}, {}
end
