-- The rows of operations, in the hash of the first partition, and the set of those that run.
local function operation_row(id)
    local found = redis.call('HGET', partition .. ':operations', id)
    return found and cmsgpack.unpack(found)
end

local function keep_operation(id, row)
    redis.call('HSET', partition .. ':operations', id, cmsgpack.pack(row))
    if row[OPERATION_STATE] == 'running' then
        redis.call('SADD', partition .. ':operations-running', id)
    else
        redis.call('SREM', partition .. ':operations-running', id)
    end
end

-- Put those of these operations into a state that are in one of the states `from`; answers them.
local function set_state(ids, from, state)
    local changed = {}
    for _, id in ipairs(ids) do
        local row = operation_row(id)
        if row and from[row[OPERATION_STATE]] then
            row[OPERATION_STATE], row[OPERATION_ADVANCED_AT] = state, moment
            row[OPERATION_REVISION] = row[OPERATION_REVISION] + 1
            keep_operation(id, row)
            changed[#changed + 1] = id
        end
    end
    return changed
end
