-- Successes of a batch, by the shorter way.
-- uses: record names counts queues mark
--
-- Nearly all moves are these, and all of them are alike: so each set is changed once for all jobs
-- and not job by job. Removals go first: a server without memory allows them, and after a first
-- write it allows the others too.
local SUCCESS_BATCH = 2000
local left, ended, pieces, expiry, timeouts, deadlines = {}, {}, {}, {}, {}, {}
local of_worker, by_line, successes = {}, {}, 0

local function each_success(command, key, list)
    for first = 1, #list, SUCCESS_BATCH do
        redis.call(command, key, unpack(list, first, math.min(first + SUCCESS_BATCH - 1, #list)))
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
    local at = 2 * successes
    successes = successes + 1
    left[successes] = id
    pieces[at + 1], pieces[at + 2] = partition .. ':s:' .. id, packed(record)
    ended[at + 1], ended[at + 2] = '0', id
    if kept then
        local last = #expiry
        expiry[last + 1], expiry[last + 2] = record[EXPIRES_AT], id
    end
end

local function write_successes()
    for worker, mine in pairs(of_worker) do
        local held = partition .. ':held:' .. worker
        each_success('ZREM', held, mine)
        if redis.call('EXISTS', held) == 0 then
            redis.call('SREM', partition .. ':holders', worker)
        end
    end
    each_success('ZREM', partition .. ':live', left)
    each_success('ZREM', partition .. ':timeouts', timeouts)
    each_success('ZREM', partition .. ':deadlines', deadlines)
    for first = 1, #pieces, SUCCESS_BATCH do
        redis.call('MSET', unpack(pieces, first, math.min(first + SUCCESS_BATCH - 1, #pieces)))
    end
    each_success('ZADD', partition .. ':ended:succeeded', ended)
    each_success('ZADD', partition .. ':expiry', expiry)
    for name, number in pairs(by_line) do
        tally('running:' .. name, -number)
        tally('succeeded:' .. name, number)
        note_moves('succeeded:' .. name, number)
    end
end

-- `batch`: id, fence, keep_for or false (for ever), result or false, … Answers the refused as finish.lua does,
-- which knows all other moves; or 0, and nothing is changed, when one of the jobs has other ties than these: then
-- finish.lua has to end them. `also` is called with the id and the record of each job that ends.
local function succeed_all(batch, ties, also)
    local ids, refused = {}, {}
    for n = 1, #batch, 4 do
        ids[#ids + 1] = batch[n]
    end
    local all_found = true
    load(ids)
    for n = 1, #ids do
        local at = 4 * (n - 1)
        local record = records[ids[n]]
        if record and record[TIES] ~= 0 and bit.band(record[TIES], bit.bnot(ties)) ~= 0 then
            return 0
        elseif record and record[STATE] == 'running' and record[FENCE] == batch[at + 2] then
            if also then
                also(ids[n], record)
            end
            succeed(ids[n], record, batch[at + 3], batch[at + 4])
        else
            local last = #refused
            all_found = all_found and record ~= nil
            refused[last + 1] = n
            refused[last + 2] = record and record[STATE] or false
            refused[last + 3] = record and record[FENCE] or false
        end
    end
    write_successes()
    return {refused, {}, not all_found and mark_of_store()}
end
