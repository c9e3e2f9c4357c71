-- End attempts of nodes that returned, and release what waited for them. What is refused changes nothing.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise moves
-- uses: time arrival record counts changes names places queues moves release
--
-- `moves`: id, fence, result or false, … Answers as finish.lua does, which knows all other moves; or 0,
-- and nothing is changed, when one of the jobs has another tie: then finish.lua has to end them.
--
-- Nearly all ends of nodes are these. As in succeed.lua they are counted line by line; the sets are
-- changed by `flush`, together with what is released.
local VALUES = 3
local batch, ids, refused = cmsgpack.unpack(moves), {}, {}
local live, ended, by_line = members_of('live'), members_of('ended:succeeded'), {}

local function leave_worker(id, record)
    local worker = record[WORKER]
    members_of(behind('held', worker))[id] = false
    workers_touched[worker] = true
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
    live[id], ended[id], changed[id] = false, 0, true
    local name = line(record[QUEUE], record[TASK])
    by_line[name] = (by_line[name] or 0) + 1
    nodes_ended[#nodes_ended + 1] = id
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
flush()
return {refused, {}}
