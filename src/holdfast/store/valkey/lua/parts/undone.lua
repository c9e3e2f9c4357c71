-- Jobs that ended badly and have a step that can be undone.
-- uses: undo steps
local function has_step_to_undo(id)
    for _, packed_row in ipairs(redis.call('HVALS', steps_key(id))) do
        local row = cmsgpack.unpack(packed_row)
        if row[STEP_UNDO] and row[STEP_RESULT] then
            return true
        end
    end
    return false
end

local function is_undone(id, record)
    return may_be_undone(record) and has_step_to_undo(id)
end

-- Whether no flow has been started yet that undoes the steps of a job.
local function owes_undo(id, record)
    return is_undone(id, record) and redis.call('EXISTS', partition .. ':f:' .. undo_flow(id)) == 0
end
