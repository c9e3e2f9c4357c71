-- The changes of a verb are collected and written by `flush`, each kind at once. Of two changes of
-- one member the later counts, so a batch may move one job several times.
--
-- Removals are written first. A server without memory allows them, and after a first write it
-- allows the others too. An insert removes nothing: it begins with a write that such a server
-- refuses, so it is refused as a whole.
--
-- A script may go on after `flush`, and then reads what was written. It flushes again at its end.
-- uses: names heads wake happenings limited
local ARGUMENT_BATCH = 2000 -- Lua unpacks no more than some thousand values
local sorted, texts, counted, noted, removed, woken, workers_touched, taken = {}, {}, {}, {}, {}, {}, {}, {}
local after_all, ready_made = {}, {} -- `ready_made`: lists of a key, its text, a key, its text, …
local lines_touched = {} -- set → queue and task
local leaving, entering = {}, {} -- set → members that leave it; set → score, member, … of those that enter it

local function each(command, key, list)
    for first = 1, #list, ARGUMENT_BATCH do
        redis.call(command, key, unpack(list, first, math.min(first + ARGUMENT_BATCH - 1, #list)))
    end
end

-- The changes of a sorted set: the score of each member, false to remove it.
local function members_of(name)
    local members = sorted[name]
    if not members then
        members = {}
        sorted[name] = members
        local gone, come = leaving[name] or {}, entering[name] or {}
        for n = 1, #gone do
            members[gone[n]] = false
        end
        for n = 1, #come, 2 do
            members[come[n + 1]] = come[n]
        end
        leaving[name], entering[name] = nil, nil
    end
    return members
end

-- Many members leave a sorted set. They stay a list, unless somebody changes other members of the set.
local function leave_all(name, gone)
    if sorted[name] or leaving[name] or entering[name] then
        local members = members_of(name)
        for n = 1, #gone do
            members[gone[n]] = false
        end
    else
        leaving[name] = gone
    end
end

-- Many members enter a sorted set, given as score, member, …
local function enter_all(name, come)
    if sorted[name] or leaving[name] or entering[name] then
        local members = members_of(name)
        for n = 1, #come, 2 do
            members[come[n + 1]] = come[n]
        end
    else
        entering[name] = come
    end
end

-- Put a member into a sorted set; a score of false removes it.
local function put(name, member, score)
    members_of(name)[member] = score
end

local function count(field, by)
    counted[field] = (counted[field] or 0) + by
end

-- Note for the books what moves so many jobs of a line.
local function note_line(what, name, jobs)
    local field = behind(what, name)
    noted[field] = (noted[field] or 0) + jobs
end

-- Note for the books what moves this job.
local function note(what, record)
    note_line(what, line(record[QUEUE], record[TASK]), 1)
end

-- Publish a message once. For 'ready:<queue>' the number of calls is the number of ready jobs.
local function wake(message)
    woken[message] = (woken[message] or 0) + 1
end

-- A cancel is also counted, for the worker's polls. It is not counted for a worker that is gone,
-- because nothing would remove the counter.
local function wake_to_cancel(worker)
    local message = 'cancel:' .. worker
    if not woken[message] and redis.call('ZSCORE', partition .. ':leases', worker) then
        after_all[#after_all + 1] = {'HINCRBY', partition .. ':wake_counters', message, 1}
    end
    wake(message)
end

-- Mark a running job as to be cancelled, and tell its worker. Of several requests the first counts.
local function ask_to_cancel(id, record, who, message)
    if not record[CANCEL_AT] then
        tell(id, seen(record), 'cancel_asked', who, message)
        record[CANCEL_AT] = moment
        changed[id] = true
    end
    wake_to_cancel(record[WORKER])
end

local function split(members)
    local gone, come, left, entered = {}, {}, 0, 0
    for member, score in pairs(members) do
        if score then
            come[entered + 1], come[entered + 2] = score, member
            entered = entered + 2
        else
            left = left + 1
            gone[left] = member
        end
    end
    return gone, come
end

local function write_sorted_and_texts()
    for name, members in pairs(sorted) do
        leaving[name], entering[name] = split(members)
    end
    for name, gone in pairs(leaving) do
        each('ZREM', partition .. ':' .. name, gone)
    end
    for first = 1, #removed, ARGUMENT_BATCH do
        redis.call('UNLINK', unpack(removed, first, math.min(first + ARGUMENT_BATCH - 1, #removed)))
    end
    for _, list in ipairs(ready_made) do
        for first = 1, #list, ARGUMENT_BATCH do
            redis.call('MSET', unpack(list, first, math.min(first + ARGUMENT_BATCH - 1, #list)))
        end
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
    for first = 1, #pairs_to_set, ARGUMENT_BATCH do
        local last = math.min(first + ARGUMENT_BATCH - 1, #pairs_to_set)
        redis.call('MSET', unpack(pairs_to_set, first, last))
    end
    for name, come in pairs(entering) do
        each('ZADD', partition .. ':' .. name, come)
    end
end

local function write_counts()
    for field, by in pairs(counted) do
        tally(field, by)
    end
    for field, jobs in pairs(noted) do
        note_moves(field, jobs)
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

local function forget_changes()
    sorted, texts, counted, noted, removed, woken, workers_touched, taken = {}, {}, {}, {}, {}, {}, {}, {}
    after_all, ready_made, lines_touched, leaving, entering = {}, {}, {}, {}, {}
    for id in pairs(changed) do
        changed[id] = nil
    end
end

local function flush()
    local before = firsts_of_lines()
    write_sorted_and_texts()
    local firsts = firsts_of_lines()
    for name, of in pairs(lines_touched) do
        update_head(of[1], of[2], before[name], firsts[name])
    end
    for key, id in pairs(taken) do
        redis.call('HSET', partition .. ':unique', key, id)
    end
    write_counts()
    note_holders()
    if next(permits) then -- somebody has asked for it
        for queue, lines in pairs(permits.write()) do
            local message = 'ready:' .. queue
            woken[message] = (woken[message] or 0) + lines
        end
    end
    write_happenings()
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
    forget_changes()
end
