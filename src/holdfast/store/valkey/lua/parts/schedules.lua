-- The rows of schedules, in the hash of their partition.
local function schedule_row(name)
    local found = redis.call('HGET', partition .. ':schedules', name)
    return found and cmsgpack.unpack(found)
end

-- An existing row is removed before it is written: a server without memory allows that, and an
-- operator must be able to pause a schedule just then. A new schedule is refused then.
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
    row[SCHEDULE_DEFINITION], row[SCHEDULE_RULE] = definition, rule
    row[SCHEDULE_KEEP], row[SCHEDULE_EDITED] = keep, edited
    row[SCHEDULE_REVISION], row[SCHEDULE_CREATED_AT] = 1, moment
    return row
end

-- Replace the definition. Only a change of the rule sets the time from which plans count.
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
