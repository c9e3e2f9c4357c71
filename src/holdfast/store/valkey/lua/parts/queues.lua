-- A queue's row: paused, cool_until, throttles, and the settings in the order of the contract.
local PAUSED, COOL_UNTIL, THROTTLES, BASE, CAP = 1, 2, 3, 4, 5
local RETAIN = {succeeded = 6, failed = 7}
local RETAIN_OTHER = 8
local FORGIVEN_AFTER = 120 * 1000000
local queues = {}

local function queue_row(name)
    if queues[name] == nil then
        local found = redis.call('HGET', partition .. ':queues', name)
        queues[name] = found and {cmsgpack.unpack(found)} or false
    end
    return queues[name]
end

local function keep_queue(name, row)
    queues[name] = row
    redis.call('HSET', partition .. ':queues', name, cmsgpack.pack(unpack(row, 1, 8)))
end

local function is_open(name)
    local row = queue_row(name)
    return not row or not (row[PAUSED] or (row[COOL_UNTIL] and row[COOL_UNTIL] > moment))
end

local function kept_by_queue(name, state)
    local row = queue_row(name)
    return row and row[RETAIN[state] or RETAIN_OTHER]
end

-- Let a queue cool down; only the first throttle of a window raises its count.
local function throttle(name, hint)
    local row = queue_row(name) or {false, nil, 0, 1.0, 300.0}
    local till = row[COOL_UNTIL]
    if till and till > moment then
        row[COOL_UNTIL] = math.max(till, after(hint))
    else
        local lately = till and moment <= till + FORGIVEN_AFTER
        row[THROTTLES] = lately and row[THROTTLES] + 1 or 1
        local wait = math.min(row[BASE] * 2 ^ math.min(row[THROTTLES] - 1, 500), row[CAP])
        row[COOL_UNTIL] = after(math.max(hint, wait))
    end
    queues[name] = row
    return row
end
