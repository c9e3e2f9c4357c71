-- The rows of queues, each read once.
local FORGIVEN_AFTER = 120 * 1000000
local queues = {}

local function fresh_queue()
    local row = {}
    row[QUEUE_PAUSED], row[QUEUE_COOL_UNTIL], row[QUEUE_THROTTLES] = false, false, 0
    row[QUEUE_SETTINGS] = FRESH_SETTINGS
    return row
end

local function queue_row(name)
    if queues[name] == nil then
        local found = redis.call('HGET', partition .. ':queues', name)
        queues[name] = found and cmsgpack.unpack(found) or false
    end
    return queues[name]
end

local function keep_queue(name, row)
    queues[name] = row
    redis.call('HSET', partition .. ':queues', name, cmsgpack.pack(row))
end

-- What an operator has tuned on a queue, nil if nothing.
local function setting_of(name, setting)
    local row = queue_row(name)
    return row and row[QUEUE_SETTINGS][setting]
end

local function is_open(name)
    local row = queue_row(name)
    if not row then
        return true
    end
    local till = row[QUEUE_COOL_UNTIL]
    return not (row[QUEUE_PAUSED] or (till and till > moment))
end

-- Seconds that the queue keeps a job that ended like this; nil leaves it to the job's own policy.
local function kept_by_queue(name, state)
    local row = queue_row(name)
    return row and row[QUEUE_SETTINGS][RETAIN[state]]
end

-- Until when nothing is given after one more throttle, and how many throttles count. Only the first throttle
-- of a window raises the count.
local function cool_window(till, throttles, hint, settings)
    if till and till > moment then
        return math.max(till, after(hint)), throttles
    end
    local lately = till and moment <= till + FORGIVEN_AFTER
    throttles = lately and throttles + 1 or 1
    local wait = settings.throttle_base * 2 ^ math.min(throttles - 1, 500)
    return after(math.max(hint, math.min(wait, settings.throttle_cap))), throttles
end

-- Let a queue cool down.
local function throttle(name, hint)
    local row = queue_row(name) or fresh_queue()
    row[QUEUE_COOL_UNTIL], row[QUEUE_THROTTLES] =
        cool_window(row[QUEUE_COOL_UNTIL], row[QUEUE_THROTTLES], hint, row[QUEUE_SETTINGS])
    queues[name] = row
    return row
end

