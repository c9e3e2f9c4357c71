-- Elements of a map: nodes that differ in their arguments alone, given as an ElementsRow. What `growth` writes
-- for as many nodes is put together here from what all of them share.
-- uses: growth

-- Whether the flow has nodes of these names. It has all elements of the map before these; a name more
-- that begins as theirs do may be one of them.
local function may_have_elements(flow, given)
    local stem = given[ELEMENTS_MAP]
    local found = redis.call('ZLEXCOUNT', partition .. ':fn:' .. flow, '[' .. stem .. '[', '(' .. stem .. '\\')
    return found ~= given[ELEMENTS_FIRST]
end

-- Give each node that waits for all these elements a gate. Answers their edges as the rows of the elements
-- have them.
local function add_gates_behind(given)
    local ids, edges = given[ELEMENTS_IDS], {}
    local behind, named = given[ELEMENTS_BEHIND], {}
    for n = 1, #behind, 2 do
        local id, wants = behind[n], behind[n + 1]
        load_nodes({id})
        local node = nodes[id]
        local at = new_gate(id, #ids, #ids, 'let_run')
        local serial = node[at + GATE_SERIAL]
        if not named[wants] then
            local wanted = string.format(':%.0f;', wants)
            named[wants] = table.concat(ids, wanted) .. wanted
        end
        texts[in_key(id, serial)], nodes_changed[id] = named[wants], true
        edges[#edges + 1] = cmsgpack.pack(id) .. cmsgpack.pack(serial) .. cmsgpack.pack(wants)
    end
    keep_nodes()
    return table.concat(edges)
end

local function add_elements(flow, given)
    local ids, args, shared = given[ELEMENTS_IDS], given[ELEMENTS_ARGS], given[ELEMENTS_LINE]
    local stem, first, at_moment = given[ELEMENTS_MAP] .. '[', given[ELEMENTS_FIRST], cmsgpack.pack(moment)
    local before_args, behind_args = given[ELEMENTS_BEFORE_ARGS], given[ELEMENTS_BEHIND_ARGS]
    local before_name = given[ELEMENTS_BEFORE_NAME]
    local behind_name = given[ELEMENTS_BEHIND_NAME] .. add_gates_behind(given)
    local before_seq = shared[NODE_LINE_BEFORE_SEQ]
    local behind_seq = shared[NODE_LINE_BEFORE_READY_AT] .. at_moment
        .. shared[NODE_LINE_BEFORE_CREATED_AT] .. at_moment .. shared[NODE_LINE_BEFORE_SPREAD]
    local name_of_line = line(shared[NODE_LINE_QUEUE], shared[NODE_LINE_TASK])
    local live, names, ready, members, keys, pieces = {}, {}, behind('ready', name_of_line), {}, {}, {}
    local score = string.format('%.0f', shared[NODE_LINE_PRIORITY]) -- which a command takes at half the time of a number
    local records_of, bodies_of = partition .. ':s:', partition .. ':b:'
    local rows_of = partition .. ':n:'
    for n = 1, #ids do
        local id, name, seq, at, entry = ids[n], stem .. string.format('%.0f]', first + n - 1), arrive(n), 6 * n - 6, 2 * n
        local spread, key = string.char(n % SPREADS), records_of .. id
        keys[n] = key
        pieces[at + 1], pieces[at + 2] = key, before_seq .. seq .. behind_seq .. spread
        pieces[at + 3] = bodies_of .. id
        pieces[at + 4] = before_args .. cmsgpack.pack(args[n]) .. behind_args .. spread
        pieces[at + 5], pieces[at + 6] = rows_of .. id, before_name .. cmsgpack.pack(name) .. behind_name .. spread
        live[entry - 1], members[entry - 1], names[entry - 1] = '0', score, '0'
        live[entry], members[entry], names[entry] = id, seq .. id, node_name(name, id)
    end
    refuse_known(keys)
    enter_all('live', live)
    enter_all('fn:' .. flow, names)
    enter_all(ready, members)
    ready_made[#ready_made + 1] = pieces
    lines_touched[ready] = {shared[NODE_LINE_QUEUE], shared[NODE_LINE_TASK]}
    local message = 'ready:' .. shared[NODE_LINE_QUEUE]
    woken[message] = (woken[message] or 0) + #ids
    count(ready, #ids)
    note_line('enqueued', name_of_line, #ids)
    flush()
end
