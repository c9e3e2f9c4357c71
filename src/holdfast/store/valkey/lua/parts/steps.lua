-- The steps of jobs: a hash for each job that has some, by name. Records are written at once, so that
-- a script which goes on reads them. The signals of a job are in another hash, by their numbers.
-- uses: streams
local function steps_key(id)
    return partition .. ':st:' .. id
end

local function signals_key(id)
    return partition .. ':sg:' .. id
end

-- A step has the value of this signal from now on.
local function take_signal(id, number, step)
    local packed_row = redis.call('HGET', signals_key(id), number)
    if packed_row then
        local row = cmsgpack.unpack(packed_row)
        row[SIGNAL_TAKEN_BY], row[SIGNAL_VALUE] = step, false
        redis.call('HSET', signals_key(id), number, cmsgpack.pack(row))
    end
end

local function has_steps(record)
    return bit.band(record[TIES], TIE_STEPS) ~= 0
end

local function step_row(given)
    local row = {}
    row[STEP_N], row[STEP_FENCE] = given[NEW_STEP_N], given[NEW_STEP_FENCE]
    row[STEP_TRIES], row[STEP_RESULT] = given[NEW_STEP_TRIES], given[NEW_STEP_RESULT]
    row[STEP_KIND], row[STEP_MESSAGE] = given[NEW_STEP_KIND], given[NEW_STEP_MESSAGE]
    row[STEP_VERSION] = given[NEW_STEP_VERSION]
    row[STEP_UNTIL] = given[NEW_STEP_SECONDS] and after(given[NEW_STEP_SECONDS])
    row[STEP_AT] = moment
    row[STEP_AWAITS] = given[NEW_STEP_AWAITS]
    row[STEP_UNDO] = given[NEW_STEP_UNDO]
    return row
end

-- Write one record of the attempt that runs. Of the records of one attempt for one name the first
-- stands. A job gets its tie with its first record.
local function record_step(id, record, given)
    local key, name, row = steps_key(id), given[NEW_STEP_NAME], cmsgpack.pack(step_row(given))
    if redis.call('HSETNX', key, name, row) == 0 then
        local there = cmsgpack.unpack(redis.call('HGET', key, name))
        if there[STEP_FENCE] < given[NEW_STEP_FENCE] then
            redis.call('HSET', key, name, row)
        end
    end
    if given[NEW_STEP_TAKES] then
        take_signal(id, given[NEW_STEP_TAKES], name)
    end
    local ties = bit.bor(record[TIES], TIE_STEPS, given[NEW_STEP_UNDO] and TIE_UNDO or 0)
    if ties ~= record[TIES] then
        record[TIES], changed[id] = ties, true
    end
end

-- Whether a step of this name has returned, or failed for good.
local function has_ended(id, step)
    local packed_row = step and redis.call('HGET', steps_key(id), step)
    local row = packed_row and cmsgpack.unpack(packed_row)
    return row and (row[STEP_RESULT] or (row[STEP_KIND] and not row[STEP_UNTIL]))
end

-- Let the waits of a job be over now.
local function end_waits(id, record)
    if not has_steps(record) then
        return
    end
    local fields = redis.call('HGETALL', steps_key(id))
    for n = 1, #fields, 2 do
        local row = cmsgpack.unpack(fields[n + 1])
        if row[STEP_UNTIL] and row[STEP_UNTIL] > moment then
            row[STEP_UNTIL] = moment
            redis.call('HSET', steps_key(id), fields[n], cmsgpack.pack(row))
        end
    end
end

-- Remove the steps, signals and streams of a job.
local function remove_steps(id)
    removed[#removed + 1] = steps_key(id)
    removed[#removed + 1] = signals_key(id)
    remove_streams(id)
end

-- Let a job begin without its steps, signals and streams.
local function forget_steps(id, record)
    if has_steps(record) then
        remove_steps(id)
        record[TIES] = bit.band(record[TIES], bit.bnot(bit.bor(TIE_STEPS, TIE_UNDO)))
        changed[id] = true
    end
end
