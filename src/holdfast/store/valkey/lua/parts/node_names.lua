-- The names of a flow's nodes lie in the sorted set `fn:<flow>`, in order, each with the id of its
-- node behind a zero byte, which no name has.
local function node_name(name, id)
    return name .. '\0' .. id
end

-- The id in a member of that set.
local function id_of(member)
    return string.match(member, '([^%z]*)$')
end

-- The id of the node that has this name, nil if none has.
local function node_named(flow, name)
    local first = '[' .. node_name(name, '')
    local found = redis.call('ZRANGEBYLEX', partition .. ':fn:' .. flow, first, first .. 'g', 'LIMIT', 0, 1)
    return found[1] and id_of(found[1])
end

-- The ids of all nodes of a flow.
local function nodes_of(flow)
    local found = redis.call('ZRANGE', partition .. ':fn:' .. flow, 0, -1)
    for n = 1, #found do
        found[n] = id_of(found[n])
    end
    return found
end
