-- Give the first ready jobs of these queues and tasks to a worker.
-- KEYS: partition
-- ARGV: now worker wants tasks inline
-- uses: time record names counts queues lines
--
-- `wants`: [queue, limit], each queue once. Answers the time, then for each job its id, record,
-- body and progress. Nothing is given to a worker whose own lease has lapsed. More than `inline`
-- jobs come without their bodies.
--
-- A fence is at least the server's time in microseconds. A server that lost its last writes counts
-- on from an older record, and must not give a fence that it gave before.
--
-- All jobs make the same move, so the sets are told of it at once and not job by job. Removals go
-- first: they are allowed when memory is short, and after a first write so is the rest.
local CHUNK = 1000
local lease = redis.call('ZSCORE', partition .. ':leases', worker)
if not lease or tonumber(lease) <= moment then
    return {moment}
end

local ids, served = {}, {}
for _, want in ipairs(cmsgpack.unpack(wants)) do
    if is_open(want[1]) then
        local picked, lines = pick(want[1], want[2])
        for n = 1, #picked, 2 do
            ids[#ids + 1] = string.sub(picked[n], 18)
        end
        for n = 1, #lines do
            served[#served + 1] = lines[n]
        end
    end
end
if #ids == 0 then
    return {moment}
end

local with_bodies = #ids <= tonumber(inline)
local answer, texts, held, timeouts = {string.format('%.0f', moment)}, {}, {}, {}
local records_of, bodies_of = partition .. ':s:', partition .. ':b:'

local function values_of(kind, first, last)
    local keys = {}
    for n = first, last do
        keys[#keys + 1] = kind .. ids[n]
    end
    return redis.call('MGET', unpack(keys))
end

local function give(n, record, body)
    local id = ids[n]
    record[STATE], record[WORKER], record[CLAIMED_AT] = 'running', worker, moment
    record[FENCE] = math.max(record[FENCE] + 1, server_time)
    record[AT] = record[TIMEOUT] and after(record[TIMEOUT])
    local blob = packed(record)
    local progress = record[HAS_PROGRESS] and redis.call('GET', partition .. ':p:' .. id)
    answer[4 * n - 2], answer[4 * n - 1], answer[4 * n] = id, blob, body
    answer[4 * n + 1] = progress or false
    texts[2 * n - 1], texts[2 * n] = records_of .. id, blob
    held[2 * n - 1], held[2 * n] = '0', id
    if record[AT] then
        timeouts[#timeouts + 1] = record[AT]
        timeouts[#timeouts + 1] = id
    end
end

for first = 1, #ids, CHUNK do
    local last = math.min(first + CHUNK - 1, #ids)
    local blobs = values_of(records_of, first, last)
    local bodies = with_bodies and values_of(bodies_of, first, last)
    for n = first, last do
        local at = n - first + 1
        give(n, cmsgpack.unpack(blobs[at]), bodies and bodies[at])
    end
end

take_off(served)
for first = 1, #texts, 2 * CHUNK do
    local last = math.min(first + 2 * CHUNK - 1, #texts)
    redis.call('MSET', unpack(texts, first, last))
    redis.call('ZADD', partition .. ':held:' .. worker, unpack(held, first, last))
end
for first = 1, #timeouts, 2 * CHUNK do
    local last = math.min(first + 2 * CHUNK - 1, #timeouts)
    redis.call('ZADD', partition .. ':timeouts', unpack(timeouts, first, last))
end
for n = 1, #served do
    tally('ready:' .. served[n].name, -served[n].taken)
    tally('running:' .. served[n].name, served[n].taken)
end
redis.call('SADD', partition .. ':holders', worker)
return answer
