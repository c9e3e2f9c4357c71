-- Whether an ended job may have steps that are to be undone. An errand finds out whether it has any.
local function may_be_undone(record)
    local state = record[STATE]
    return bit.band(record[TIES], TIE_UNDO) ~= 0
        and (state == 'failed' or state == 'cancelled' or state == 'expired')
end

-- The flow that does it: `undo_flow_id` in holdfast/flow/ids.py makes the same id.
local function undo_flow(id)
    return string.sub(id, 1, 14) .. '9' .. string.sub(id, 16)
end
