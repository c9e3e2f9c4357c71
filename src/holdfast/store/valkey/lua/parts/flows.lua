-- The rows of flows, each read once, and what flows owe. `keep_flow` leaves the writing to `flush`.
-- uses: node_names moved_texts
--
-- The block hides what only its functions need: a script may have 200 local names.
local flow_row, load_flows, new_flow, keep_flow, set_flow_state, end_flow, holder_of_flow_key, owe
local flow_state, count_down

do
    local rows, holders, owed = {}, {}, 0
    local HEAD_TEXT, HEAD_REST = FLOW_FAILED + 1, FLOW_FAILED + 2
    local heads = {} -- flow → FLOW_STATE, FLOW_OPEN and FLOW_FAILED of a row that nobody has asked for more of, its text, and
        -- where the other values begin in it
    local KEPT = {
        succeeded = FLOW_KEEP_SUCCEEDED, failed = FLOW_KEEP_FAILED, cancelled = FLOW_KEEP_CANCELLED
    }

    -- The row of a flow, false if there is none.
    function flow_row(id)
        if rows[id] == nil then
            load_flows({id})
        end
        local head = heads[id]
        if head then
            local row = unpacked(head[HEAD_TEXT])
            row[FLOW_OPEN], row[FLOW_FAILED] = head[FLOW_OPEN], head[FLOW_FAILED]
            rows[id], heads[id] = row, nil
        end
        return rows[id]
    end

    function load_flows(ids)
        local unread, keys, count_unread = {}, {}, 0
        for n = 1, #ids do
            local id = ids[n]
            if rows[id] == nil then
                rows[id] = false
                count_unread = count_unread + 1
                unread[count_unread], keys[count_unread] = id, partition .. ':f:' .. id
            end
        end
        for first = 1, count_unread, 2000 do
            local last = math.min(first + 1999, count_unread)
            local found = redis.call('MGET', unpack(keys, first, last))
            for n = first, last do
                local text = found[n - first + 1]
                if text then
                    local at, state, open, failed = cmsgpack.unpack_limit(text, FLOW_FAILED, 3)
                    heads[unread[n]] = {state, open, failed, text, at + 1}
                end
            end
        end
    end

    function flow_state(id)
        local row = heads[id] or flow_row(id)
        return row and row[FLOW_STATE]
    end

    -- Take a node that has ended from the live nodes of its flow. `is_bad`: it was a sink and ended badly. Answers
    -- whether there is such a flow, and whether it is to be ended now.
    function count_down(id, is_bad)
        local row = heads[id] or flow_row(id)
        if not row then
            return false
        end
        row[FLOW_OPEN] = row[FLOW_OPEN] - 1
        row[FLOW_FAILED] = row[FLOW_FAILED] + (is_bad and 1 or 0)
        return true, row[FLOW_OPEN] == 0 and not flow_row(id)[FLOW_FINISHED_AT]
    end

    function keep_flow(id)
        local head = heads[id]
        if head then
            local text = head[HEAD_TEXT]
            local state = string.sub(text, 1, 3 + 1 + #head[FLOW_STATE]) -- behind the bytes of a list and of a text
            texts['f:' .. id] = state .. moved_texts.number(head[FLOW_OPEN]) .. moved_texts.number(head[FLOW_FAILED])
                .. string.sub(text, head[HEAD_REST])
        else
            texts['f:' .. id] = cmsgpack.pack(rows[id])
        end
    end

    -- The live flow that has a unique key, nil if none has.
    function holder_of_flow_key(key)
        local id = holders[key] or redis.call('HGET', partition .. ':flow-keys', key)
        local row = id and flow_row(id)
        return row and not row[FLOW_FINISHED_AT] and id or nil
    end

    local function take_key(id, row)
        if row[FLOW_KEY] then
            holders[row[FLOW_KEY]] = id
            after_all[#after_all + 1] = {'HSET', partition .. ':flow-keys', row[FLOW_KEY], id}
        end
    end

    function new_flow(id, row)
        rows[id] = row
        row[FLOW_CREATED_AT] = moment
        put('flows:' .. row[FLOW_STATE], id, 0)
        take_key(id, row)
        keep_flow(id)
    end

    local function move_flow(id, row, state)
        put('flows:' .. row[FLOW_STATE], id, false)
        put('flows:' .. state, id, 0)
        row[FLOW_STATE] = state
    end

    -- A flow that has ended and is put into a live state is as it was before its end.
    function set_flow_state(id, row, state)
        move_flow(id, row, state)
        if row[FLOW_FINISHED_AT] then
            put('flow-expiry', id, false)
            row[FLOW_FINISHED_AT], row[FLOW_EXPIRES_AT] = false, false
            take_key(id, row)
        end
        keep_flow(id)
    end

    -- Whether a node of the flow failed or passed its deadline. Asked only when a sink ended badly.
    local function has_failure(flow)
        local ids, unread = nodes_of(flow), {}
        for _, id in ipairs(ids) do
            unread[#unread + 1] = not records[id] and id or nil -- what this script changed is newer
        end
        load(unread)
        for _, id in ipairs(ids) do
            local state = records[id] and records[id][STATE]
            if state == 'failed' or state == 'expired' then
                return true
            end
        end
        return false
    end

    -- End a flow that has no live node left. `holdfast.flow.model.state_at_end` says the same. The caller keeps the row.
    function end_flow(id, row)
        local state = 'succeeded'
        if row[FLOW_CANCEL_ASKED] then
            state = 'cancelled'
        elseif row[FLOW_FAILED] > 0 then
            state = has_failure(id) and 'failed' or 'cancelled'
        end
        move_flow(id, row, state)
        local kept = row[KEPT[state]]
        row[FLOW_FINISHED_AT], row[FLOW_EXPIRES_AT] = moment, kept and after(kept)
        put('flow-expiry', id, row[FLOW_EXPIRES_AT])
        local key = row[FLOW_KEY]
        if key and holder_of_flow_key(key) == nil then
            after_all[#after_all + 1] = {'HDEL', partition .. ':flow-keys', key}
        end
        if row[FLOW_PARENT] then
            owe(id, 'parent', row[FLOW_PARENT])
        end
    end

    -- Write down what somebody has to do after this script, and wake those who do such things. An
    -- errand is all that its text says; the time and a number before it order errands by age.
    function owe(flow, kind, job, what)
        local age = string.format('%013x%04x', server_time, owed % 65536)
        local at = string.format('%.0f', moment)
        owed = owed + 1
        put('errands', table.concat({age, at, kind, flow, job or '', what or ''}, ':'), 0)
        wake('errands')
    end
end
