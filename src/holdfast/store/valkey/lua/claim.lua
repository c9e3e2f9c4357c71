-- Give the first ready jobs of these queues and tasks to a worker.
-- KEYS: partition
-- ARGV: now worker wants tasks
-- uses: time record changes places queues lines
--
-- `wants`: [queue, limit], each queue once. Answers the time, then for each job its id, record,
-- body and progress. Nothing is given to a worker whose own lease has lapsed.
local lease = redis.call('ZSCORE', partition .. ':leases', worker)
if not lease or tonumber(lease) <= moment then
    return {moment}
end

local known, picked = cmsgpack.unpack(tasks), {}
for _, want in ipairs(cmsgpack.unpack(wants)) do
    if is_open(want[1]) then
        local found = pick(want[1], known, want[2])
        for n = 1, #found, 2 do
            picked[#picked + 1] = string.sub(found[n], 18)
        end
    end
end
if #picked == 0 then
    return {moment}
end

load(picked)
local bodies = {}
for n = 1, #picked do
    bodies[n] = partition .. ':b:' .. picked[n]
end
local answer = {string.format('%.0f', moment)}
for first = 1, #bodies, 2000 do
    local found = redis.call('MGET', unpack(bodies, first, math.min(first + 1999, #bodies)))
    for n = 1, #found do
        local id = picked[first + n - 1]
        local record = records[id]
        leave(id, record)
        record[STATE], record[WORKER], record[CLAIMED_AT] = 'running', worker, moment
        record[FENCE] = record[FENCE] + 1
        record[AT] = record[TIMEOUT] and after(record[TIMEOUT])
        enter(id, record)
        local at = #answer
        answer[at + 1], answer[at + 2], answer[at + 3] = id, packed(record), found[n]
        answer[at + 4] = record[HAS_PROGRESS] and redis.call('GET', partition .. ':p:' .. id) or false
    end
end
flush()
return answer
