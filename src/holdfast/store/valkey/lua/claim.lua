-- Give the first ready jobs of these queues and tasks to a worker.
-- KEYS: partition
-- ARGV: now worker wants tasks inline
-- uses: time record names counts queues lines aside
--
-- `wants`: [queue, limit, how many begin at once], each queue once. Answers the time, then for each job its id, record,
-- body and progress. Nothing is given to a worker whose own lease has lapsed. More than `inline`
-- jobs come without their bodies.
--
-- A fence is at least the server's time in milliseconds, shifted by the six bits that count how often
-- the job was taken. A server that lost its last writes counts on from an older record, and must not
-- give a fence that it gave before.
--
-- A job without a record or a body that can be read is put aside, and the lines are read again: it
-- must not keep those behind it from being served.
--
-- All jobs make the same move, so the sets are told of it at once and not job by job. Removals go
-- first: they are allowed when memory is short, and after a first write so is the rest.
local CHUNK = 1000
local lease = redis.call('ZSCORE', partition .. ':leases', worker)
if not lease or tonumber(lease) <= moment then
    return {moment}
end

local known, wanted = cmsgpack.unpack(tasks), cmsgpack.unpack(wants)
local records_of, bodies_of = partition .. ':s:', partition .. ':b:'
local members, ids, served, ahead

local function choose()
    members, ids, served, ahead = {}, {}, {}, {}
    for _, want in ipairs(wanted) do
        if is_open(want[1]) then
            local picked, lines = pick(want[1], known, want[2])
            for n = 1, #picked, 2 do
                members[#members + 1] = picked[n]
                ids[#ids + 1] = string.sub(picked[n], 18)
                ahead[#ids] = n > 2 * want[3]
            end
            for n = 1, #lines do
                served[#served + 1] = lines[n]
            end
        end
    end
end

local function values_of(kind, first, last)
    local keys = {}
    for n = first, last do
        keys[#keys + 1] = kind .. ids[n]
    end
    return redis.call('MGET', unpack(keys))
end

-- The records of the chosen, the bodies of a few, and the places of those that cannot be read.
local function read()
    local found, bodies, broken = {}, false, {}
    for first = 1, #ids, CHUNK do
        local last = math.min(first + CHUNK - 1, #ids)
        local readable = unpack_each(values_of(records_of, first, last))
        for n = 1, #readable do
            found[first + n - 1] = readable[n]
        end
    end
    if #ids > 0 and #ids <= tonumber(inline) then
        bodies = values_of(bodies_of, 1, #ids)
    end
    for n = 1, #ids do
        if not found[n] or (bodies and not bodies[n]) then
            broken[#broken + 1] = n
        end
    end
    return found, bodies, broken
end

local function drop(n)
    for _, head in ipairs(served) do
        if redis.call('ZREM', head.key, members[n]) == 1 then
            tally('ready:' .. head.name, -1)
        end
    end
    put_aside(ids[n])
end

choose()
local found, bodies, broken = read()
while #broken > 0 do
    for _, n in ipairs(broken) do
        drop(n)
    end
    choose()
    found, bodies, broken = read()
end
if #ids == 0 then
    return {moment}
end

local answer, texts, held, timeouts = {string.format('%.0f', moment)}, {}, {}, {}

local function next_fence(fence)
    local grown = math.max(math.floor(fence / 64) + 1, math.floor(server_time / 1000))
    return grown * 64 + math.min(fence % 64 + 1, 63)
end

local function give(n, record, body)
    local id = ids[n]
    record[STATE], record[WORKER], record[CLAIMED_AT] = 'running', worker, moment
    record[FENCE], record[AHEAD] = next_fence(record[FENCE]), ahead[n]
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

for n = 1, #ids do
    give(n, found[n], bodies and bodies[n])
end

for n = 1, #served do
    redis.call('ZREMRANGEBYRANK', served[n].key, 0, served[n].taken - 1)
end
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
