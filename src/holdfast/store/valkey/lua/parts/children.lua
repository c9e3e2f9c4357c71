-- The flows that jobs have started: a set for each job that has started some, until they are removed.
-- uses: flows undo
local function children_of(id)
    return redis.call('SMEMBERS', partition .. ':ch:' .. id)
end

-- Whether a flow is kept as long as its parent: it was given no time of its own, and is no whole life
-- of its parent (`child_flow_id` in holdfast/flow/ids.py).
local function is_kept_with_parent(flow, row)
    return string.sub(flow, 15, 15) ~= '8'
        and not (row[FLOW_KEEP_SUCCEEDED] or row[FLOW_KEEP_FAILED] or row[FLOW_KEEP_CANCELLED])
end

-- A job is removed, or begins anew: flows that are kept as long as it may go when they have ended.
-- `record` is false for a job that was put aside.
local function let_go_of_children(id, record)
    if record and bit.band(record[TIES], bit.bor(TIE_PARENT, TIE_UNDO)) == 0 then
        return
    end
    for _, flow in ipairs(children_of(id)) do
        local row = flow_row(flow)
        if row and is_kept_with_parent(flow, row) then
            row[FLOW_KEEP_SUCCEEDED], row[FLOW_KEEP_FAILED], row[FLOW_KEEP_CANCELLED] = 0, 0, 0
            if row[FLOW_FINISHED_AT] then
                row[FLOW_EXPIRES_AT] = moment
                put('flow-expiry', flow, moment)
            end
            keep_flow(flow)
        end
    end
end
