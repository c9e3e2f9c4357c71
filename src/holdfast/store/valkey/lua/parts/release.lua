-- What the end of a node does to its flow, in the script that ends it.
-- uses: flows gates moved_texts ended_jobs cascade
--
-- A work-list in rounds: the edges of all nodes that ended are counted at their gates. A node whose
-- gates are all met is released. A node with an impossible gate is skipped, and belongs to the ended
-- nodes of the next round. A script skips at most CASCADE_LIMIT nodes, but for the round in which it
-- comes to that many; it owes the rest as an errand.
--
-- What cannot be decided now waits in the sorted set `unsettled:<flow>`: with the score 1 ended nodes
-- whose edges are still to be counted, with 0 blocked nodes whose gates were decided in a flow that does
-- not run.
--
-- Nearly all ends lead to releases of nodes without a delay or limits. What else they lead to is made when it is first
-- needed (`beyond`, in cascade.lua).
local judge, decide, release_ended, finish_flow

do
    local because = {} -- node, serial number of a gate → the upstreams that edges were lost to
    local free, touched, skipped, settled = {}, {}, 0, 0
    local blocked_texts = {} -- node → the packed record of a blocked node that never ran, and that nothing has changed

    -- Read the records of nodes that may be blocked. Most are released, and that needs the packed record alone.
    local function load_blocked(ids)
        local unread, keys, others, count_unread = {}, {}, {}, 0
        for n = 1, #ids do
            local id = ids[n]
            if not records[id] then
                count_unread = count_unread + 1
                unread[count_unread], keys[count_unread] = id, partition .. ':s:' .. id
            end
        end
        for first = 1, count_unread, ARGUMENT_BATCH do
            local found = redis.call('MGET', unpack(keys, first, math.min(first + ARGUMENT_BATCH - 1, count_unread)))
            for n = 1, #found do
                if found[n] and moved_texts.is_blocked(found[n]) then
                    blocked_texts[unread[first + n - 1]] = found[n]
                else
                    others[#others + 1] = unread[first + n - 1]
                end
            end
        end
        load(others)
    end

    -- The record of such a node, for those who change other values of it.
    local function record_of(id)
        if blocked_texts[id] then
            blocked_texts[id] = nil
            load({id})
        end
        return records[id]
    end

    local function is_blocked(id)
        return blocked_texts[id] or records[id] and records[id][STATE] == 'blocked'
    end

    -- Drop the gates that are met. Answers where an impossible gate is, if there is one: of several one that was lost
    -- to a bad end, if there is one.
    local function drop_met(id)
        local node, kept, impossible = nodes[id], NODE_WIDTH, nil
        for at = NODE_WIDTH, last_gate(node), GATE_WIDTH do
            if is_met(node, at) then
                if node[at + GATE_LOSERS] == 'cancel' then
                    owe(node[NODE_FLOW], 'losers', id)
                end
            else
                for n = 1, kept < at and GATE_WIDTH or 0 do
                    node[kept + n] = node[at + n]
                end
                if is_impossible(node, kept) and not (impossible and node[impossible + GATE_IS_BAD]) then
                    impossible = node[kept + GATE_IS_BAD] and kept or impossible or kept
                end
                kept = kept + GATE_WIDTH
            end
        end
        cut(node, kept)
        nodes_changed[id] = true
        return impossible
    end

    -- What is written of a released node need not say so: gates count for blocked nodes only.
    local function release_or_skip(id)
        local node, impossible = nodes[id], drop_met(id)
        if impossible then
            node[NODE_IS_BAD] = node[impossible + GATE_IS_BAD]
            beyond.skip(id, record_of(id), because[in_key(id, node[impossible + GATE_SERIAL])])
            skipped = skipped + 1
        elseif not has_gates(node) then
            free[#free + 1], nodes_changed[id] = id, nil
        end
    end

    local function is_decided(node)
        for at = NODE_WIDTH, last_gate(node), GATE_WIDTH do
            if is_met(node, at) or is_impossible(node, at) then
                return true
            end
        end
        return not has_gates(node)
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
        load_blocked(decided)
        for n = 1, #decided do
            local id = decided[n]
            local flow = nodes[id][NODE_FLOW]
            local state = is_blocked(id) and flow_state(flow)
            if state == 'running' then
                release_or_skip(id)
            elseif state then
                put('unsettled:' .. flow, id, 0)
            end
        end
    end

    -- End a flow that has no live node left. The caller keeps the row. `skipped:<flow>` has its nodes that were skipped
    -- for no bad end.
    function finish_flow(id)
        local row, skips = flow_row(id), 'skipped:' .. id
        if sorted[skips] or redis.call('EXISTS', partition .. ':' .. skips) == 1 then
            beyond.fail_late(id, row)
        end
        end_flow(id, row)
    end

    -- Take these ended nodes from the live nodes of their flows.
    local function count_all_down(ids)
        for n = 1, #ids do
            local id, node = ids[n], node_rows[ids[n]]
            local flow = node[NODE_ROW_FLOW]
            local is_there, is_over = count_down(flow, node[NODE_ROW_IS_SINK] and is_bad_end(id))
            touched[flow] = is_there or nil
            if is_over then
                finish_flow(flow)
            end
        end
    end

    -- Where the gate of this serial number is in the row of its node, if both are there.
    local function place_of(node, serial)
        for at = NODE_WIDTH, node and last_gate(node) or 0, GATE_WIDTH do
            if node[at + GATE_SERIAL] == serial then
                return at
            end
        end
    end

    local function note_loss(id, serial, upstream)
        local key = in_key(id, serial)
        because[key] = because[key] or {}
        table.insert(because[key], upstream)
    end

    -- The nodes that waited for nothing but one of these ended nodes (EDGE_ALONE), and the other edges of these: lists
    -- of nodes, serial numbers, wants and upstreams.
    local function edges_of(ids)
        local alone, waiting, serials, wants, upstreams = {}, {}, {}, {}, {}
        local count_alone, last = 0, 0
        for n = 1, #ids do
            local upstream, row = ids[n], node_rows[ids[n]]
            local won, runs = BITS[records[upstream][STATE]], flow_state(row[NODE_ROW_FLOW]) == 'running'
            for edge = NODE_ROW_WIDTH + 1, #row - 1, 3 do
                local wanted = row[edge + 2]
                if runs and wanted >= EDGE_ALONE and bit.band(wanted, won) ~= 0 then
                    count_alone = count_alone + 1
                    alone[count_alone] = row[edge]
                else
                    last = last + 1
                    waiting[last], serials[last], wants[last], upstreams[last] = row[edge], row[edge + 1], wanted, upstream
                end
            end
        end
        return alone, waiting, serials, wants, upstreams
    end

    local function free_blocked(ids)
        load_blocked(ids)
        local count_free = #free
        for n = 1, #ids do
            if is_blocked(ids[n]) then
                count_free = count_free + 1
                free[count_free] = ids[n]
            end
        end
    end

    -- Count the edges of these ended nodes, and judge who waits for them.
    function decide(ids)
        local counted_at, order = {}, {}
        local alone, waiting, serials, wants, upstreams = edges_of(ids)
        local at -- that of the gate before, which most edges share
        load_nodes(waiting)
        for n = 1, #waiting do
            local id, serial = waiting[n], serials[n]
            if id ~= waiting[n - 1] or serial ~= serials[n - 1] then
                at = place_of(nodes[id], serial)
            end
            if at and not count_edge(nodes[id], at, wants[n], upstreams[n]) then
                note_loss(id, serial, upstreams[n])
            end
            if at and not counted_at[id] then
                counted_at[id], nodes_changed[id], order[#order + 1] = true, true, id
            end
        end
        judge(order)
        free_blocked(alone)
    end

    -- A priority as text, which a command takes at half the time of a number.
    local scores = {}
    local function score_of(priority)
        scores[priority] = scores[priority] or string.format('%.0f', priority)
        return scores[priority]
    end

    -- The record of a blocked node that becomes ready with this arrival number, for `flush`. Answers the node's queue,
    -- task and priority.
    local function write_released(id, seq, pieces)
        local before = blocked_texts[id]
        if before then
            local text, queue, task, priority = moved_texts.released(before, seq)
            local last = #pieces
            pieces[last + 1], pieces[last + 2], blocked_texts[id] = partition .. ':s:' .. id, text, nil
            return queue, task, priority
        end
        local record = records[id]
        record[STATE], record[SEQ], record[READY_AT], record[REASON] = 'ready', seq, moment, false
        changed[id] = true
        return record[QUEUE], record[TASK], record[PRIORITY]
    end

    -- Put many blocked nodes at the ends of their lines. It does what `make_ready` does for one job, and
    -- counts line by line: most nodes of a flow are released by dozens.
    local function make_all_ready(ids)
        local by_line, pieces = {}, {}
        for n = 1, #ids do
            local id, seq = ids[n], arrive(n % 65536)
            local queue, task, priority = write_released(id, seq, pieces)
            local name = line(queue, task)
            local one = by_line[name]
            if not one then
                one = {count = 0, queue = queue, members = {}}
                by_line[name] = one
                lines_touched[behind('ready', name)] = {queue, task}
            end
            local at = 2 * one.count
            one.members[at + 1], one.members[at + 2] = score_of(priority), seq .. id
            one.count = one.count + 1
        end
        ready_made[#ready_made + 1] = pieces
        leave_all('untimed:blocked', ids)
        for name, one in pairs(by_line) do
            enter_all(behind('ready', name), one.members)
            count(behind('blocked', name), -one.count)
            count(behind('ready', name), one.count)
            note_line('released', name, one.count)
            local message = 'ready:' .. one.queue
            woken[message] = (woken[message] or 0) + one.count
        end
    end

    -- In the order of their ids, which is the order in which they were made.
    local function release_free()
        local ready, count_ready = {}, 0
        table.sort(free)
        for n = 1, #free do
            local id = free[n]
            local delay = nodes[id] and nodes[id][NODE_DELAY]
            if delay and delay > 0 or records[id] and records[id][BUCKETS] then
                beyond.release(id, record_of(id), delay)
            else
                count_ready = count_ready + 1
                ready[count_ready] = id
            end
        end
        if count_ready > 0 then
            make_all_ready(ready)
        end
        free = {}
    end

    -- The nodes that have ended since the last call. A job may have the tie of a node and belong to no
    -- flow: then there is nothing to settle.
    local function next_round()
        local ids, flows, round, last = {}, {}, {}, 0
        for n = settled + 1, #nodes_ended do
            ids[n - settled] = nodes_ended[n]
        end
        settled = #nodes_ended
        load_node_rows(ids)
        for n = 1, #ids do
            local row = node_rows[ids[n]]
            if row then
                last = last + 1
                round[last], flows[last] = ids[n], row[NODE_ROW_FLOW]
            end
        end
        load_flows(flows)
        return round
    end

    -- Settle the nodes that have ended since the last call, with all that follows.
    function release_ended()
        while settled < #nodes_ended do
            local round = next_round()
            count_all_down(round)
            if skipped >= CASCADE_LIMIT then
                beyond.put_off(round)
            else
                decide(round)
            end
        end
        release_free()
        if #parents_ended > 0 or #to_undo > 0 then
            beyond.owe_others()
        end
        for flow in pairs(touched) do
            keep_flow(flow)
        end
        touched = {}
        keep_nodes()
    end
end
