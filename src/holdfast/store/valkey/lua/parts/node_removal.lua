-- Remove a node, whose rows are loaded, with its job if that has ended. A node that is live, though its flow
-- has ended, is left as a job of no flow.
-- uses: removal gates
local function remove_node(id, what)
    local record = records[id]
    if record and ENDED[record[STATE]] then
        remove(id, record, what)
    end
    for serial = 0, nodes[id] and nodes[id][NODE_MADE] - 1 or -1 do
        removed[#removed + 1] = partition .. ':' .. in_key(id, serial)
    end
    removed[#removed + 1] = partition .. ':n:' .. id
    removed[#removed + 1] = partition .. ':g:' .. id
end
