-- Moves of a job from place to place. Each function does all of one move. `what` is the word under
-- which the books count it; an end is counted under its state.
-- uses: places queues undo ended_jobs
local function forget_attempt(record)
    record[AT], record[WORKER], record[CLAIMED_AT] = false, false, false
    record[CANCEL_AT], record[REASON], record[AHEAD] = false, false, false
end

-- Put a job in its line: at the end with a new arrival number, or without one at its old position.
local function make_ready(id, record, what, seq)
    note(what, record)
    leave(id, record)
    forget_attempt(record)
    record[STATE] = 'ready'
    if seq then
        record[SEQ], record[READY_AT] = seq, moment
    end
    enter(id, record)
    wake('ready:' .. record[QUEUE])
end

-- Let a job wait until a time. A suspended job may have none: then only `resume` wakes it.
local function make_wait(id, record, what, state, at, reason)
    note(what, record)
    leave(id, record)
    forget_attempt(record)
    record[STATE], record[AT], record[REASON] = state, at or false, reason or false
    enter(id, record)
    if at then
        wake('due')
    end
end

-- `keep_for` is how many seconds to keep the job, unless its queue says so; nil is for ever. A node
-- is kept as long as its flow.
local function make_ended(id, record, state, keep_for, reason, result)
    note(state, record)
    leave(id, record)
    enlist(id, record, false)
    record[STATE], record[AT], record[READY_AT] = state, moment, false
    record[REASON], record[RESULT] = reason or false, result or false
    local kept = kept_by_queue(record[QUEUE], state) or keep_for
    local is_node = bit.band(record[TIES], TIE_NODE) ~= 0
    record[EXPIRES_AT] = kept and not is_node and after(kept) or false
    enter(id, record)
    if is_node then
        nodes_ended[#nodes_ended + 1] = id
    end
    if bit.band(record[TIES], TIE_PARENT) ~= 0 then
        parents_ended[#parents_ended + 1] = id
    end
    if may_be_undone(record) then
        to_undo[#to_undo + 1] = id
    end
end

-- Seconds that a job's own policy keeps it when it is cancelled, nil for ever. Needed only where a script ends a
-- job by itself: any other end comes with its retention. A policy that cannot be read counts as the
-- default, and does not fail the other jobs of the batch.
local function kept_by_policy(id)
    local body = texts['b:' .. id] or redis.call('GET', partition .. ':b:' .. id)
    local read, kept = pcall(function()
        return cjson.decode(cmsgpack.unpack(body)[BODY_POLICY]).retention.other
    end)
    if read and kept == cjson.null then
        return nil
    end
    return read and type(kept) == 'number' and kept or tonumber(kept_otherwise)
end

-- Make a job due at a time. A time that has come means ready now. `who` and `message` are for the
-- happening.
local function make_due(id, record, at, seq, who, message)
    local row = seen(record)
    if at > moment then
        if record[STATE] == 'ready' or record[AT] ~= at then
            tell(id, row, 'rescheduled', who, message, at)
        end
        make_wait(id, record, 'rescheduled', 'scheduled', at, nil)
    elseif record[STATE] ~= 'ready' then
        tell(id, row, 'rescheduled', who, message)
        make_ready(id, record, 'rescheduled', seq)
    end
end
