-- What the end of a node does to its flow, in the script that ends it.
-- uses: flows gates
--
-- A work-list in rounds: the edges of all nodes that ended are counted at their gates. A node whose
-- gates are all met is released. A node with an impossible gate is skipped, and belongs to the ended
-- nodes of the next round. A script skips at most CASCADE_LIMIT nodes, but for the round in which it
-- comes to that many; it owes the rest as an errand.
--
-- What cannot be decided now waits in the sorted set `unsettled:<flow>`: with the score 1 ended nodes
-- whose edges are still to be counted, with 0 blocked nodes whose gates were decided in a flow that does
-- not run.
local judge, release_ended, settle_flow

do
    local because = {} -- gate → the upstreams that edges were lost to
    local free, touched, skipped, settled = {}, {}, 0, 0

    -- Of several upstreams it names the first by name.
    local function reason_of(gate)
        local said = {}
        for n, upstream in ipairs(because[gate] or {}) do
            local name = node_rows[upstream][NODE_ROW_NAME]
            said[n] = "'" .. name .. "' is " .. records[upstream][STATE]
        end
        table.sort(said)
        return said[1] or 'a node that it needs has ended'
    end

    -- Drop the gates that are met. Answers an impossible gate, if there is one.
    local function drop_met(id)
        local node, open, impossible = nodes[id], {}, nil
        for _, gate in ipairs(node[NODE_GATES]) do
            if is_met(gate) then
                if gate[GATE_LOSERS] == 'cancel' then
                    owe(node[NODE_FLOW], 'losers', id)
                end
            else
                open[#open + 1] = gate
                impossible = impossible or (is_impossible(gate) and gate)
            end
        end
        node[NODE_GATES], nodes_changed[id] = open, true
        return impossible
    end

    -- What is written of a released node need not say so: gates count for blocked nodes only.
    local function release_or_skip(id)
        local impossible = drop_met(id)
        if impossible then
            nodes[id][NODE_IS_BAD] = impossible[GATE_IS_BAD]
            make_ended(id, records[id], 'skipped', nil, reason_of(impossible))
            skipped = skipped + 1
        elseif #nodes[id][NODE_GATES] == 0 then
            free[#free + 1], nodes_changed[id] = id, nil
        end
    end

    local function is_decided(node)
        for _, gate in ipairs(node[NODE_GATES]) do
            if is_met(gate) or is_impossible(gate) then
                return true
            end
        end
        return #node[NODE_GATES] == 0
    end

    -- Release or skip those of these nodes that are blocked and whose gates say so.
    function judge(ids)
        local decided = {}
        for n = 1, #ids do
            local node = nodes[ids[n]]
            if node and is_decided(node) then
                decided[#decided + 1] = ids[n]
            end
        end
        load(decided)
        for n = 1, #decided do
            local id, record = decided[n], records[decided[n]]
            local flow = nodes[id][NODE_FLOW]
            local row = record and record[STATE] == 'blocked' and flow_row(flow)
            if row and row[FLOW_STATE] == 'running' then
                release_or_skip(id)
            elseif row then
                put('unsettled:' .. flow, id, 0)
            end
        end
    end

    -- Take these ended nodes from the live nodes of their flows.
    local function count_down(ids)
        for n = 1, #ids do
            local id, node = ids[n], node_rows[ids[n]]
            local flow = node[NODE_ROW_FLOW]
            local row = flow_row(flow)
            if row then
                touched[flow] = true
                row[FLOW_OPEN] = row[FLOW_OPEN] - 1
                if node[NODE_ROW_IS_SINK] and is_bad_end(id) then
                    row[FLOW_FAILED] = row[FLOW_FAILED] + 1
                end
                if row[FLOW_OPEN] == 0 and not row[FLOW_FINISHED_AT] then
                    end_flow(flow, row)
                end
            end
        end
    end

    -- The edges of these ended nodes: upstream, node, serial number of the gate, wants, …
    local function edges_of(ids)
        local edges, waiting, last_edge = {}, {}, 0
        for n = 1, #ids do
            local text = node_rows[ids[n]][NODE_ROW_OUT]
            if text ~= '' then
                for node, serial, wants in string.gmatch(text, '([^:;]+):(%d+):(%d+);') do
                    edges[last_edge + 1], edges[last_edge + 2] = ids[n], node
                    edges[last_edge + 3], edges[last_edge + 4] = tonumber(serial), tonumber(wants)
                    waiting[#waiting + 1], last_edge = node, last_edge + 4
                end
            end
        end
        load_nodes(waiting)
        return edges
    end

    local function gate_of(node, serial)
        local gates = node and node[NODE_GATES] or {}
        for n = 1, #gates do
            if gates[n][GATE_SERIAL] == serial then
                return gates[n]
            end
        end
    end

    -- Count the edges of these ended nodes, and judge who waits for them.
    local function decide(ids)
        local edges, counted_at, order = edges_of(ids), {}, {}
        for n = 1, #edges, 4 do
            local upstream, id = edges[n], edges[n + 1]
            local gate = gate_of(nodes[id], edges[n + 2])
            if gate then
                if not count_edge(gate, edges[n + 3], upstream) then
                    because[gate] = because[gate] or {}
                    table.insert(because[gate], upstream)
                end
                if not counted_at[id] then
                    counted_at[id], nodes_changed[id], order[#order + 1] = true, true, id
                end
            end
        end
        judge(order)
    end

    -- Leave the edges of these ended nodes to `Flows.settle`.
    local function put_off(ids)
        local flows = {}
        for _, id in ipairs(ids) do
            local flow = node_rows[id][NODE_ROW_FLOW]
            put('unsettled:' .. flow, id, 1)
            if not flows[flow] then
                flows[flow] = true
                owe(flow, 'settle')
            end
        end
    end

    -- Put many blocked nodes at the ends of their lines. It does what `make_ready` does for one job, and
    -- counts line by line: most nodes of a flow are released by dozens.
    local function make_all_ready(ids)
        local blocked, by_line = members_of('untimed:blocked'), {}
        for n = 1, #ids do
            local id, record, seq = ids[n], records[ids[n]], arrive(n % 65536)
            local name = line(record[QUEUE], record[TASK])
            local one = by_line[name]
            if not one then
                local set = behind('ready', name)
                one = {count = 0, queue = record[QUEUE], members = members_of(set)}
                by_line[name] = one
                lines_touched[set] = {record[QUEUE], record[TASK]}
            end
            record[STATE], record[SEQ], record[READY_AT], record[REASON] = 'ready', seq, moment, false
            blocked[id], one.members[seq .. id], changed[id] = false, record[PRIORITY], true
            one.count = one.count + 1
        end
        for name, one in pairs(by_line) do
            count(behind('blocked', name), -one.count)
            count(behind('ready', name), one.count)
            note_line('released', name, one.count)
            local message = 'ready:' .. one.queue
            woken[message] = (woken[message] or 0) + one.count
        end
    end

    -- In the order of their ids, which is the order in which they were made.
    local function release_free()
        local ready = {}
        table.sort(free)
        for _, id in ipairs(free) do
            local delay = nodes[id][NODE_DELAY]
            if delay and delay > 0 then
                make_wait(id, records[id], 'released', 'scheduled', after(delay), 'released')
            else
                ready[#ready + 1] = id
            end
        end
        make_all_ready(ready)
        free = {}
    end

    -- The nodes that have ended since the last call. A job may have the tie of a node and belong to no
    -- flow: then there is nothing to settle.
    local function next_round()
        local ids, flows, round = {}, {}, {}
        for n = settled + 1, #nodes_ended do
            ids[#ids + 1] = nodes_ended[n]
        end
        settled = #nodes_ended
        load_node_rows(ids)
        for n = 1, #ids do
            local row = node_rows[ids[n]]
            if row then
                round[#round + 1], flows[#flows + 1] = ids[n], row[NODE_ROW_FLOW]
            end
        end
        load_flows(flows)
        return round
    end

    -- Owe the cancel of live flows whose parents have ended. `child_flow_id` in holdfast/flow/model.py
    -- makes the same id.
    local function orphan_flows()
        for _, parent in ipairs(parents_ended) do
            local flow = string.sub(parent, 1, 14) .. '8' .. string.sub(parent, 16)
            local row = flow_row(flow)
            if row and not row[FLOW_FINISHED_AT] then
                owe(flow, 'orphan', parent)
            end
        end
        parents_ended = {}
    end

    -- Settle the nodes that have ended since the last call, with all that follows.
    function release_ended()
        while settled < #nodes_ended do
            local round = next_round()
            count_down(round)
            if skipped >= CASCADE_LIMIT then
                put_off(round)
            else
                decide(round)
            end
        end
        release_free()
        orphan_flows()
        for flow in pairs(touched) do
            keep_flow(flow)
        end
        touched = {}
        keep_nodes()
    end

    -- Go on with what could not be decided before.
    function settle_flow(flow)
        local key = partition .. ':unsettled:' .. flow
        local found, ids, ended, blocked = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}, {}, {}
        removed[#removed + 1] = key
        for n = 1, #found, 2 do
            ids[#ids + 1] = found[n]
        end
        load(ids)
        load_nodes(ids)
        load_node_rows(ids)
        for n, id in ipairs(ids) do
            local state = records[id] and node_rows[id] and records[id][STATE]
            if ENDED[state] and tonumber(found[2 * n]) == 1 then
                ended[#ended + 1] = id
            elseif state == 'blocked' then
                blocked[#blocked + 1] = id
            end
        end
        judge(blocked)
        decide(ended)
        release_ended()
    end
end
