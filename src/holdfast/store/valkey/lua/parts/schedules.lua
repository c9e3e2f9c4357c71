-- A schedule's row in the hash of its partition: a MessagePack list, false where there is none.
local DEFINITION, RULE, KEEP, EDITED, REVISION, MADE_AT, CHANGED_AT = 1, 2, 3, 4, 5, 6, 7
local DECLARED_AT, STOPPED, STOPPED_AT, RESUMED_AT, COMPLAINT, COMPLAINT_AT = 8, 9, 10, 11, 12, 13
-- since when the program runs whose definition stands, and when such a program last declared it;
-- what an older program that still runs declares instead, and when it last did; the oldest and the
-- newest plan that fired and whose row was pruned since
local CODE_SINCE, CODE_SEEN_AT, RIVAL, RIVAL_AT, PRUNED_FROM, PRUNED_UNTIL = 14, 15, 16, 17, 18, 19

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
    local row = {definition, rule, keep, edited, 1, moment}
    for field = CHANGED_AT, PRUNED_UNTIL do
        row[field] = false
    end
    return row
end

-- Plans of another rule begin now; a change of anything else leaves that time.
local function define(row, definition, rule, keep)
    if row[RULE] ~= rule then
        row[CHANGED_AT] = moment
    end
    row[DEFINITION], row[RULE], row[KEEP] = definition, rule, keep
    row[REVISION] = row[REVISION] + 1
end

local function tell_evaluators()
    local channel = partition:gsub(':%d+}$', '}') .. ':wake'
    redis.call('HINCRBY', partition .. ':signals', 'schedules', 1)
    redis.call('PUBLISH', channel, 'schedules')
end
