-- The rows of schedules, in the hash of their partition.
local function schedule_row(name)
    local found = redis.call('HGET', partition .. ':schedules', name)
    return found and cmsgpack.unpack(found)
end

-- It is removed before it is written, which is allowed when memory is short: just then a schedule
-- must be stoppable. One that is new is refused then.
local function keep_schedule(name, row, is_new)
    if not is_new then
        redis.call('HDEL', partition .. ':schedules', name)
    end
    redis.call('HSET', partition .. ':schedules', name, cmsgpack.pack(row))
end

local function new_schedule(definition, rule, keep, edited)
    local row = {}
    for n = 1, SCHEDULE_WIDTH do
        row[n] = false
    end
    row[SCHEDULE_DEFINITION], row[SCHEDULE_RULE], row[SCHEDULE_KEEP], row[SCHEDULE_EDITED] = definition, rule, keep, edited
    row[SCHEDULE_REVISION], row[SCHEDULE_CREATED_AT] = 1, moment
    return row
end

-- Plans of another rule begin now; a change of anything else leaves that time.
local function define(row, definition, rule, keep)
    if row[SCHEDULE_RULE] ~= rule then
        row[SCHEDULE_CHANGED_AT] = moment
    end
    row[SCHEDULE_DEFINITION], row[SCHEDULE_RULE], row[SCHEDULE_KEEP] = definition, rule, keep
    row[SCHEDULE_REVISION] = row[SCHEDULE_REVISION] + 1
end

local function tell_evaluators()
    local channel = partition:gsub(':%d+}$', '}') .. ':wake'
    redis.call('HINCRBY', partition .. ':wake_counters', 'schedules', 1)
    redis.call('PUBLISH', channel, 'schedules')
end
