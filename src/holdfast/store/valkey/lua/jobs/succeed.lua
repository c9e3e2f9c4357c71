-- End attempts of jobs without ties, or with steps only, that returned. What is refused changes nothing.
-- KEYS: partition
-- ARGV: now moves
-- uses: time record names counts queues
--
-- `moves`: id, fence, keep_for or false (for ever), result or false, … Answers the refused as finish.lua does, which
-- knows all other moves; or 0, and nothing is changed, when one of the jobs has other ties: then
-- finish.lua has to end them.
--
-- Nearly all moves are these, and all of them are alike: so each set is changed once for all jobs
-- and not job by job. Removals go first: a server without memory allows them, and after a first
-- write it allows the others too.
local ARGUMENT_BATCH = 2000
local VALUES = 4
local batch, ids, refused = cmsgpack.unpack(moves), {}, {}
local left, ended, texts, expiry, timeouts, deadlines = {}, {}, {}, {}, {}, {}
local of_worker, by_line, count = {}, {}, 0

local function each(command, key, list)
    for first = 1, #list, ARGUMENT_BATCH do
        redis.call(command, key, unpack(list, first, math.min(first + ARGUMENT_BATCH - 1, #list)))
    end
end

local function note_place(id, record)
    local mine = of_worker[record[WORKER]]
    if not mine then
        mine = {}
        of_worker[record[WORKER]] = mine
    end
    mine[#mine + 1] = id
    if record[AT] then
        timeouts[#timeouts + 1] = id
    end
    if record[DEADLINE_AT] then
        deadlines[#deadlines + 1] = id
    end
    local name = line(record[QUEUE], record[TASK])
    by_line[name] = (by_line[name] or 0) + 1
end

local function succeed(id, record, keep_for, result)
    note_place(id, record)
    record[STATE], record[AT], record[READY_AT], record[REASON] = 'succeeded', moment, false, false
    record[ATTEMPTS], record[RESULT] = record[ATTEMPTS] + 1, result
    local kept = kept_by_queue(record[QUEUE], 'succeeded') or keep_for
    record[EXPIRES_AT] = kept and after(kept)
    local at = 2 * count
    count = count + 1
    left[count] = id
    texts[at + 1], texts[at + 2] = partition .. ':s:' .. id, packed(record)
    ended[at + 1], ended[at + 2] = '0', id
    if kept then
        local last = #expiry
        expiry[last + 1], expiry[last + 2] = record[EXPIRES_AT], id
    end
end

for n = 1, #batch, VALUES do
    ids[#ids + 1] = batch[n]
end
load(ids)
for n = 1, #ids do
    local at = VALUES * (n - 1)
    local record = records[ids[n]]
    if record and record[TIES] ~= 0 and record[TIES] ~= TIE_STEPS then
        return 0
    elseif record and record[STATE] == 'running' and record[FENCE] == batch[at + 2] then
        succeed(ids[n], record, batch[at + 3], batch[at + 4])
    else
        local last = #refused
        refused[last + 1] = n
        refused[last + 2] = record and record[STATE] or false
        refused[last + 3] = record and record[FENCE] or false
    end
end

for worker, mine in pairs(of_worker) do
    local held = partition .. ':held:' .. worker
    each('ZREM', held, mine)
    if redis.call('EXISTS', held) == 0 then
        redis.call('SREM', partition .. ':holders', worker)
    end
end
each('ZREM', partition .. ':live', left)
each('ZREM', partition .. ':timeouts', timeouts)
each('ZREM', partition .. ':deadlines', deadlines)
for first = 1, #texts, ARGUMENT_BATCH do
    redis.call('MSET', unpack(texts, first, math.min(first + ARGUMENT_BATCH - 1, #texts)))
end
each('ZADD', partition .. ':ended:succeeded', ended)
each('ZADD', partition .. ':expiry', expiry)
for name, number in pairs(by_line) do
    tally('running:' .. name, -number)
    tally('succeeded:' .. name, number)
    note_moves('succeeded:' .. name, number)
end
return {refused, {}}
