-- What the end of a node does to its flow, in the script that ends it.
-- uses: flows gates
--
-- A work-list in rounds: the edges of all nodes that ended are counted at their gates. A node whose
-- gates are all met is released. A node with an impossible gate is skipped, and belongs to the ended
-- nodes of the next round. A script skips at most CASCADE_LIMIT nodes, but for the round in which it
-- comes to that many; it owes the rest as an errand.
--
-- What cannot be decided now waits in the sorted set `unsettled:<flow>`: ended nodes whose edges are
-- still to be counted, and blocked nodes whose gates were decided in a flow that does not run.
local judge, release_ended, settle_flow

do
    local because = {} -- gate → the upstream that an edge was lost to
    local free, touched, skipped, settled = {}, {}, 0, 0

    local function is_running(row)
        return row and row[FLOW_STATE] == 'running'
    end

    local function reason_of(gate)
        local upstream = because[gate]
        if not upstream then
            return 'a node that it needs has ended'
        end
        local row = redis.call('GET', partition .. ':n:' .. upstream)
        local name = row and cmsgpack.unpack(row)[NODE_ROW_NAME] or upstream
        return "'" .. name .. "' is " .. records[upstream][STATE]
    end

    local function skip(id, record, gate)
        record[NODE][NODE_IS_BAD] = gate[GATE_IS_BAD]
        make_ended(id, record, 'skipped', nil, reason_of(gate))
        skipped = skipped + 1
    end

    -- Drop the gates that are met. Answers an impossible gate, if there is one.
    local function drop_met(id, record)
        local node, open, impossible = record[NODE], {}, nil
        for _, gate in ipairs(node[NODE_GATES]) do
            if is_met(gate) then
                removed[#removed + 1] = partition .. ':' .. gate_key(id, gate)
                if gate[GATE_LOSERS] == 'cancel' then
                    owe(node[NODE_FLOW], 'losers', id)
                end
            else
                open[#open + 1] = gate
                impossible = impossible or (is_impossible(gate) and gate)
            end
        end
        node[NODE_GATES] = open
        return impossible
    end

    -- Release or skip a blocked node, if its gates say so.
    function judge(id, record)
        local node, is_decided = record[NODE], #record[NODE][NODE_GATES] == 0
        for _, gate in ipairs(node[NODE_GATES]) do
            is_decided = is_decided or is_met(gate) or is_impossible(gate)
        end
        if not is_decided then
            return
        end
        if not is_running(flow_row(node[NODE_FLOW])) then
            put('unsettled:' .. node[NODE_FLOW], id, 0)
            return
        end
        changed[id] = true
        local impossible = drop_met(id, record)
        if impossible then
            skip(id, record, impossible)
        elseif #node[NODE_GATES] == 0 then
            free[#free + 1] = id
        end
    end

    -- Take these ended nodes from the live nodes of their flows.
    local function count_down(ids)
        for _, id in ipairs(ids) do
            local record = records[id]
            local flow = record[NODE][NODE_FLOW]
            local row = flow_row(flow)
            drop_gates(id, record)
            if row then
                touched[flow] = true
                row[FLOW_OPEN] = row[FLOW_OPEN] - 1
                if record[NODE][NODE_IS_SINK] and is_bad_end(record) then
                    row[FLOW_FAILED] = row[FLOW_FAILED] + 1
                end
                if row[FLOW_OPEN] == 0 and not row[FLOW_FINISHED_AT] then
                    end_flow(flow, row)
                end
            end
        end
    end

    -- The gates that wait for these ended nodes, each with those of the nodes that it names.
    local function take_edges(ids)
        local waiting, by_name, unread = {}, {}, {}
        for _, id in ipairs(ids) do
            local out = partition .. ':out:' .. id
            for _, name in ipairs(redis.call('ZRANGE', out, 0, -1)) do
                local one = by_name[name]
                if not one then
                    local node, n = string.match(name, '^(.*):(%d+)$')
                    one = {id = node, n = tonumber(n), upstreams = {}}
                    by_name[name], waiting[#waiting + 1] = one, one
                    if not records[node] then
                        unread[#unread + 1] = node
                    end
                end
                one.upstreams[#one.upstreams + 1] = id
            end
            removed[#removed + 1] = out
        end
        load(unread)
        return waiting
    end

    local function gate_of(record, n)
        for _, gate in ipairs(record[NODE][NODE_GATES]) do
            if gate[GATE_N] == n then
                return gate
            end
        end
    end

    local function count_edges(one, gate)
        local key, upstreams = gate_key(one.id, gate), one.upstreams
        for first = 1, #upstreams, 2000 do
            local last = math.min(first + 1999, #upstreams)
            local found = redis.call('ZMSCORE', partition .. ':' .. key, unpack(upstreams, first, last))
            for n = first, last do
                local upstream, wants = upstreams[n], found[n - first + 1]
                if wants then
                    put(key, upstream, false)
                    if not count_edge(gate, tonumber(wants), records[upstream]) then
                        because[gate] = upstream
                    end
                end
            end
        end
    end

    -- Count the edges of these ended nodes, and judge who waits for them.
    local function decide(ids)
        local counted_at, order = {}, {}
        for _, one in ipairs(take_edges(ids)) do
            local record = records[one.id]
            local gate = record and record[STATE] == 'blocked' and gate_of(record, one.n)
            if gate then
                count_edges(one, gate)
                changed[one.id] = true
                if not counted_at[one.id] then
                    counted_at[one.id], order[#order + 1] = true, one.id
                end
            end
        end
        for _, id in ipairs(order) do
            judge(id, records[id])
        end
    end

    -- Leave the edges of these ended nodes to `Flows.settle`.
    local function put_off(ids)
        local flows = {}
        for _, id in ipairs(ids) do
            local flow = records[id][NODE][NODE_FLOW]
            put('unsettled:' .. flow, id, 0)
            if not flows[flow] then
                flows[flow] = true
                owe(flow, 'settle')
            end
        end
    end

    -- In the order of their ids, which is the order in which they were made.
    local function release_free()
        table.sort(free)
        for n, id in ipairs(free) do
            local record = records[id]
            local delay = record[NODE][NODE_DELAY]
            if record[STATE] ~= 'blocked' then
                error('a node is released once: ' .. id)
            elseif delay and delay > 0 then
                make_wait(id, record, 'released', 'scheduled', after(delay), 'released')
            else
                make_ready(id, record, 'released', arrive(n % 65536))
            end
        end
        free = {}
    end

    -- Settle the nodes that have ended since the last call, with all that follows. A job may have the
    -- tie of a node and belong to no flow: then there is nothing to settle.
    function release_ended()
        while settled < #nodes_ended do
            local round = {}
            for n = settled + 1, #nodes_ended do
                if records[nodes_ended[n]][NODE] then
                    round[#round + 1] = nodes_ended[n]
                end
            end
            settled = #nodes_ended
            count_down(round)
            if skipped >= CASCADE_LIMIT then
                put_off(round)
            else
                decide(round)
            end
        end
        release_free()
        for flow in pairs(touched) do
            keep_flow(flow)
        end
        touched = {}
    end

    -- Go on with what could not be decided before.
    function settle_flow(flow)
        local key = partition .. ':unsettled:' .. flow
        local ids, ended = redis.call('ZRANGE', key, 0, -1), {}
        removed[#removed + 1] = key
        load(ids)
        for _, id in ipairs(ids) do
            local record = records[id]
            if record and ENDED[record[STATE]] then
                ended[#ended + 1] = id
            elseif record and record[STATE] == 'blocked' then
                judge(id, record)
            end
        end
        decide(ended)
        release_ended()
    end
end
