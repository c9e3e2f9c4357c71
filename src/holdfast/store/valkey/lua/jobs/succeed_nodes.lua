-- End attempts of nodes that returned, and release what waited for them. What is refused changes nothing.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise moves
-- uses: time arrival record counts changes names places queues moves release
--
-- `moves`: id, fence, result or false, … Answers as finish.lua does, which knows all other moves; or 0,
-- and nothing is changed, when one of the jobs has another tie: then finish.lua has to end them.
--
-- Nearly all ends of nodes are these. As in succeed.lua, each set is changed once for all of them, and they
-- are counted line by line. `flush` writes what is released.
local VALUES = 3
local batch, ids, refused = cmsgpack.unpack(moves), {}, {}
local left, ended, pieces, by_line, of_worker = {}, {}, {}, {}, {}

local function leave_worker(id, record)
    local worker = record[WORKER]
    local mine = of_worker[worker]
    if not mine then
        mine = {}
        of_worker[worker], workers_touched[worker] = mine, true
    end
    mine[#mine + 1] = id
    if record[AT] then
        put('timeouts', id, false)
    end
    if record[DEADLINE_AT] then
        put('deadlines', id, false)
    end
end

local function succeed(id, record, result)
    leave_worker(id, record)
    record[STATE], record[AT], record[READY_AT], record[REASON] = 'succeeded', moment, false, false
    record[ATTEMPTS], record[RESULT] = record[ATTEMPTS] + 1, result
    local count_before = #left
    left[count_before + 1], nodes_ended[count_before + 1] = id, id
    ended[2 * count_before + 1], ended[2 * count_before + 2] = '0', id
    pieces[2 * count_before + 1], pieces[2 * count_before + 2] = partition .. ':s:' .. id, packed(record)
    local name = line(record[QUEUE], record[TASK])
    by_line[name] = (by_line[name] or 0) + 1
end

for n = 1, #batch, VALUES do
    ids[#ids + 1] = batch[n]
end
load(ids)
for n = 1, #ids do
    local record = records[ids[n]]
    if record and record[TIES] ~= TIE_NODE and record[TIES] ~= TIE_NODE + TIE_STEPS then
        return 0
    end
end
for n = 1, #ids do
    local at, record = VALUES * (n - 1), records[ids[n]]
    if record and record[STATE] == 'running' and record[FENCE] == batch[at + 2] then
        succeed(ids[n], record, batch[at + 3])
    else
        local last = #refused
        refused[last + 1] = n
        refused[last + 2] = record and record[STATE] or false
        refused[last + 3] = record and record[FENCE] or false
    end
end
for name, number in pairs(by_line) do
    count(behind('running', name), -number)
    count(behind('succeeded', name), number)
    note_line('succeeded', name, number)
end
release_ended()
for worker, mine in pairs(of_worker) do
    each('ZREM', partition .. ':held:' .. worker, mine)
end
each('ZREM', partition .. ':live', left)
ready_made[1] = pieces
flush()
each('ZADD', partition .. ':ended:succeeded', ended)
return {refused, {}}
