-- What few ends of nodes lead to, for `release`: skips, releases of other kinds, what is put off and what is owed.
-- uses: time arrival record changes flows nodes moves children
-- fills: beyond
do
    -- `lost_to`: the upstreams that edges were lost to. Of several the reason names the first by name.
    function beyond.skip(id, record, lost_to)
        local said = {}
        for n, upstream in ipairs(lost_to or {}) do
            local name = node_rows[upstream][NODE_ROW_NAME]
            said[n] = "'" .. name .. "' is " .. records[upstream][STATE]
        end
        table.sort(said)
        make_ended(id, record, 'skipped', nil, said[1] or 'a node that it needs has ended')
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
