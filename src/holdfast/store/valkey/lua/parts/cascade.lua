-- What few ends of nodes lead to, for `release`: skips, releases of other kinds, what is put off and what is owed.
-- uses: time arrival record changes flows nodes gates moves children
-- fills: beyond
do
    -- What is said of a node that has lost these upstreams: it names the first by name.
    local function first_said(upstreams)
        local said = {}
        for n, upstream in ipairs(upstreams) do
            local name = node_rows[upstream][NODE_ROW_NAME]
            said[n] = "'" .. name .. "' is " .. records[upstream][STATE]
        end
        table.sort(said)
        return said[1]
    end

    -- `lost_to`: the upstreams that edges were lost to. The reason names one that ended badly, if there is one.
    function beyond.skip(id, record, lost_to)
        local bad = {}
        for _, upstream in ipairs(lost_to or {}) do
            bad[#bad + 1] = is_bad_end(upstream) and upstream or nil
        end
        local said = first_said(#bad > 0 and bad or lost_to or {})
        make_ended(id, record, 'skipped', nil, said or 'a node that it needs has ended')
        if not nodes[id][NODE_IS_BAD] then
            put('skipped:' .. nodes[id][NODE_FLOW], id, 0)
        end
    end

    -- The nodes that were skipped for no bad end. Nobody keeps them from here on.
    local function take_skipped(flow)
        local name, ids = 'skipped:' .. flow, {}
        local members = members_of(name)
        for _, id in ipairs(redis.call('ZRANGE', partition .. ':' .. name, 0, -1)) do
            members[id] = members[id] == nil and 0 or members[id]
        end
        for id, score in pairs(members) do
            ids[#ids + 1] = score and id or nil
        end
        for _, id in ipairs(ids) do
            members[id] = false
        end
        table.sort(ids)
        return ids
    end

    local function load_unread(ids)
        local unread = {}
        for _, id in ipairs(ids) do
            unread[#unread + 1] = not records[id] and id or nil -- what this script changed is newer
        end
        load(unread)
        load_nodes(ids)
        load_node_rows(ids)
    end

    -- Add to `behind` the upstreams that the gates of a skipped node have lost, and that are there, each with the node.
    -- Only gates count that were not met. Nobody else needs what they waited for, so the text of their edges says it.
    local function note_lost(id, behind)
        local node = nodes[id]
        for at = NODE_WIDTH, last_gate(node), GATE_WIDTH do
            local key, upstreams, wants = in_key(id, node[at + GATE_SERIAL]), {}, {}
            for upstream, wanted in string.gmatch(redis.call('GET', partition .. ':' .. key) or '', '([^:;]+):(%d+);') do
                upstreams[#upstreams + 1], wants[#wants + 1] = upstream, tonumber(wanted)
            end
            load_unread(upstreams)
            local lost, won = {}, 0
            for n, upstream in ipairs(upstreams) do
                local bits = records[upstream] and BITS[records[upstream][STATE]] or 0
                if bit.band(wants[n], bits) ~= 0 then
                    won = won + 1
                elseif bits > 0 then
                    lost[#lost + 1] = upstream
                end
            end
            for n = 1, won < node[at + GATE_NEED] and #lost or 0 do
                behind[lost[n]] = behind[lost[n]] or {}
                table.insert(behind[lost[n]], id)
            end
        end
    end

    local function is_let_go(flow, id)
        return redis.call('ZSCORE', partition .. ':let-go:' .. flow, id)
    end

    -- Nodes may have been skipped for no bad end while others that they waited for were live. Mark those of which such
    -- a node has ended badly since. The flow has no live node left.
    function beyond.fail_late(flow, row)
        local ids, behind, ahead, because = take_skipped(flow), {}, {}, {}
        load_unread(ids)
        for _, id in ipairs(ids) do
            note_lost(id, behind)
        end
        for upstream in pairs(behind) do
            ahead[#ahead + 1] = is_bad_end(upstream) and not is_let_go(flow, upstream) and upstream or nil
        end
        while #ahead > 0 do
            local upstream = table.remove(ahead)
            for _, id in ipairs(behind[upstream] or {}) do
                if not because[id] then
                    because[id], nodes[id][NODE_IS_BAD], nodes_changed[id] = {}, true, true
                    ahead[#ahead + 1] = not is_let_go(flow, id) and id or nil
                    row[FLOW_FAILED] = row[FLOW_FAILED] + (node_rows[id][NODE_ROW_IS_SINK] and 1 or 0)
                end
                table.insert(because[id], upstream)
            end
        end
        for id, upstreams in pairs(because) do
            records[id][REASON], changed[id] = first_said(upstreams), true
        end
    end

    -- Release a node that has a delay, or else limits.
    function beyond.release(id, record, delay)
        if delay and delay > 0 then
            make_wait(id, record, 'released', 'scheduled', after(delay), 'released')
        else
            make_ready(id, record, 'released', arrive(0))
        end
    end

    -- Leave the edges of these ended nodes to `Flows.settle`.
    function beyond.put_off(ids)
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

    -- Owe the cancel of live flows whose parents have ended.
    local function orphan_flows()
        for _, parent in ipairs(parents_ended) do
            for _, flow in ipairs(children_of(parent)) do
                local row = flow_row(flow)
                if row and not row[FLOW_FINISHED_AT] then
                    owe(flow, 'orphan', parent)
                end
            end
        end
        parents_ended = {}
    end

    -- Owe that the steps of these jobs are undone.
    local function owe_undo()
        for _, id in ipairs(to_undo) do
            owe(undo_flow(id), 'undo', id)
        end
        to_undo = {}
    end

    function beyond.owe_others()
        orphan_flows()
        owe_undo()
    end
end
