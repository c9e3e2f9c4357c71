-- What a verb changes is collected and written at its end, each kind at once. The last word on a
-- member counts, so a batch may move one job several times.
--
-- Removals go first: they are allowed when memory is short, and after a first write so is the
-- rest. Only a verb that removes nothing, an insert, begins with a write that is refused then,
-- and so is refused as a whole.
-- uses: heads wake
local CHUNK = 2000
local sorted, texts, counted, removed, woken, workers_touched, taken = {}, {}, {}, {}, {}, {}, {}
local after_all = {}
local lines_touched = {} -- set → queue and task

local function each(command, key, list)
    for first = 1, #list, CHUNK do
        redis.call(command, key, unpack(list, first, math.min(first + CHUNK - 1, #list)))
    end
end

-- Put a member into a sorted set; false as its score takes it out.
local function put(name, member, score)
    local members = sorted[name]
    if not members then
        members = {}
        sorted[name] = members
    end
    members[member] = score
end

local function count(field, by)
    counted[field] = (counted[field] or 0) + by
end

-- How often says how many jobs became ready.
local function wake(message)
    woken[message] = (woken[message] or 0) + 1
end

-- A cancel is also counted, for the worker's polls; not for one that is gone, whose number nobody
-- would remove.
local function wake_to_cancel(worker)
    local message = 'cancel:' .. worker
    if not woken[message] and redis.call('ZSCORE', partition .. ':leases', worker) then
        after_all[#after_all + 1] = {'HINCRBY', partition .. ':wake_counters', message, 1}
    end
    wake(message)
end

local function split(members)
    local gone, come = {}, {}
    for member, score in pairs(members) do
        if score then
            come[#come + 1] = score
            come[#come + 1] = member
        else
            gone[#gone + 1] = member
        end
    end
    return gone, come
end

local function write_sorted_and_texts()
    local entering = {}
    for name, members in pairs(sorted) do
        local gone, come = split(members)
        each('ZREM', partition .. ':' .. name, gone)
        entering[name] = come
    end
    for first = 1, #removed, CHUNK do
        redis.call('UNLINK', unpack(removed, first, math.min(first + CHUNK - 1, #removed)))
    end
    local pairs_to_set = {}
    for key, value in pairs(texts) do
        pairs_to_set[#pairs_to_set + 1] = partition .. ':' .. key
        pairs_to_set[#pairs_to_set + 1] = value
    end
    for id in pairs(changed) do
        pairs_to_set[#pairs_to_set + 1] = partition .. ':s:' .. id
        pairs_to_set[#pairs_to_set + 1] = packed(records[id])
    end
    for first = 1, #pairs_to_set, CHUNK do
        redis.call('MSET', unpack(pairs_to_set, first, math.min(first + CHUNK - 1, #pairs_to_set)))
    end
    for name, come in pairs(entering) do
        each('ZADD', partition .. ':' .. name, come)
    end
end

local function write_counts()
    for field, by in pairs(counted) do
        tally(field, by)
    end
end

local function note_holders()
    for worker in pairs(workers_touched) do
        local holds = redis.call('EXISTS', partition .. ':held:' .. worker) == 1
        redis.call(holds and 'SADD' or 'SREM', partition .. ':holders', worker)
    end
end

local function firsts_of_lines()
    local firsts = {}
    for name in pairs(lines_touched) do
        firsts[name] = first_of(partition .. ':' .. name)
    end
    return firsts
end

local function flush()
    local before = firsts_of_lines()
    write_sorted_and_texts()
    local firsts = firsts_of_lines()
    for name, of in pairs(lines_touched) do
        lead(of[1], of[2], before[name], firsts[name])
    end
    for key, id in pairs(taken) do
        redis.call('HSET', partition .. ':unique', key, id)
    end
    write_counts()
    note_holders()
    for n = 1, #after_all do
        redis.call(unpack(after_all[n]))
    end
    local channel = partition:gsub(':%d+}$', '}') .. ':wake'
    for message, times in pairs(woken) do
        if message:sub(1, 6) == 'ready:' then
            tell_of_ready(channel, message:sub(7), times)
        else
            redis.call('PUBLISH', channel, message)
        end
    end
end
