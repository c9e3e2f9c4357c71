-- End attempts of nodes that returned, and release what waited for them. What is refused changes nothing.
-- KEYS: partition
-- ARGV: now arrival kept_otherwise moves
-- uses: time arrival record counts changes names release mark
--
-- `moves`: id, fence, result or false, … Answers as finish.lua does, which knows all other moves; or 0,
-- and nothing is changed, when one of the jobs has another tie or a record that is not like most: then
-- finish.lua has to end them.
--
-- Nearly all ends of nodes are these. As in succeed.lua, each set is changed once for all of them, and they
-- are counted line by line. `flush` writes what is released.
local VALUES = 3
local batch, ids, keys, texts_before, refused = cmsgpack.unpack(moves), {}, {}, {}, {}
local left, ended, pieces, by_line, of_worker = {}, {}, {}, {}, {}
local count_left, all_found = 0, true
local succeeded = {} -- what the part `release` asks of the record of an ended node
succeeded[STATE] = 'succeeded'

local function leave_worker(id, worker, times_out_at, deadline_at)
    local mine = of_worker[worker]
    if not mine then
        mine = {}
        of_worker[worker], workers_touched[worker] = mine, true
    end
    mine[#mine + 1] = id
    if times_out_at then
        put('timeouts', id, false)
    end
    if deadline_at then
        put('deadlines', id, false)
    end
end

local function refuse(n)
    local last = #refused
    load({ids[n]})
    local record = records[ids[n]]
    all_found = all_found and record ~= nil
    refused[last + 1], refused[last + 2] = n, record and record[STATE] or false
    refused[last + 3] = record and record[FENCE] or false
end

-- Answers false if finish.lua has to end the job.
local function succeed(n, before)
    local id, at = ids[n], VALUES * (n - 1)
    local text, fence, worker, ties, deadline_at, queue, task, times_out_at =
        moved_texts.succeeded(before, batch[at + 3])
    if ties ~= TIE_NODE and bit.band(ties, bit.bnot(TIE_STEPS + TIE_BEGUN)) ~= TIE_NODE then
        return false
    elseif fence ~= batch[at + 2] then
        refuse(n)
        return true
    end
    leave_worker(id, worker, times_out_at, deadline_at)
    local last = 2 * count_left
    count_left = count_left + 1
    left[count_left], nodes_ended[count_left], records[id] = id, id, succeeded
    ended[last + 1], ended[last + 2] = '0', id
    pieces[last + 1], pieces[last + 2] = keys[n], text
    local name = line(queue, task)
    by_line[name] = (by_line[name] or 0) + 1
    return true
end

-- An error means that a record cannot be read.
local function succeed_all()
    for n = 1, #ids do
        local before = texts_before[n]
        if before and moved_texts.is_running(before) then
            if not succeed(n, before) then
                return false
            end
        else
            refuse(n)
            local record = records[ids[n]]
            if record and record[STATE] == 'running' then
                return false
            end
        end
    end
    return true
end

for n = 1, #batch / VALUES do
    local id = batch[VALUES * (n - 1) + 1]
    ids[n], keys[n] = id, partition .. ':s:' .. id
end
for first = 1, #keys, ARGUMENT_BATCH do
    local found = redis.call('MGET', unpack(keys, first, math.min(first + ARGUMENT_BATCH - 1, #keys)))
    for n = 1, #found do
        texts_before[first + n - 1] = found[n]
    end
end
local is_read, all_known = pcall(succeed_all)
if not (is_read and all_known) then
    return 0
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
ready_made[#ready_made + 1] = pieces
flush()
each('ZADD', partition .. ':ended:succeeded', ended)
return {refused, {}, not all_found and mark_of_store()}
