-- The moves from place to place, each the whole of it.
local function forget_attempt(record)
    record[AT], record[WORKER], record[CLAIMED_AT] = false, false, false
    record[CANCEL_AT], record[REASON], record[AHEAD] = false, false, false
end

-- To its line: at its end with a new arrival number, or without one at its old place.
local function make_ready(id, record, seq)
    leave(id, record)
    forget_attempt(record)
    record[STATE] = 'ready'
    if seq then
        record[SEQ], record[READY_AT] = seq, moment
    end
    enter(id, record)
    wake('ready:' .. record[QUEUE])
end

-- To wait for a moment, or, suspended, perhaps for somebody's word alone.
local function make_wait(id, record, state, at, reason)
    leave(id, record)
    forget_attempt(record)
    record[STATE], record[AT], record[REASON] = state, at or false, reason or false
    enter(id, record)
    if at then
        wake('due')
    end
end

local function make_ended(id, record, state, keep_for, reason, result)
    leave(id, record)
    enlist(id, record, false)
    record[STATE], record[AT], record[READY_AT] = state, moment, false
    record[REASON], record[RESULT] = reason or false, result or false
    record[EXPIRES_AT] = after(kept_by_queue(record[QUEUE], state) or keep_for)
    enter(id, record)
end

-- How long a job's own policy keeps it when it ends neither well nor badly. Read only when a
-- store has to end a job by itself: whoever decides an end says how long it is kept. A policy that
-- cannot be read says nothing, and fails nobody else of the batch.
local function kept_by_policy(id)
    local body = texts['b:' .. id] or redis.call('GET', partition .. ':b:' .. id)
    local read, kept = pcall(function()
        return cjson.decode(cmsgpack.unpack(body)[BODY_POLICY]).retention.other
    end)
    return read and type(kept) == 'number' and kept or tonumber(kept_otherwise)
end

-- A moment that has come means ready now.
local function make_due(id, record, at, seq)
    if at > moment then
        make_wait(id, record, 'scheduled', at, nil)
    elseif record[STATE] ~= 'ready' then
        make_ready(id, record, seq)
    end
end
