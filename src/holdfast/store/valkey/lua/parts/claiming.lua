-- Giving jobs to a worker, whichever way they were picked.
-- uses: time record names counts queues lines aside node_facts
--
-- `wants`: [queue, limit, how many begin at once], each queue once. Answers the time, then id,
-- record, body and progress of each job. A worker whose own lease has lapsed gets nothing, and
-- neither does anybody while all queues are paused; paused tasks are passed over. More
-- than `inline` jobs come without their bodies. If jobs with ties are among them there is one answer more: that
-- of `facts_of` for nodes, and then id, steps and signals of each job that has some. A worker reads by itself
-- what does not come with so many jobs.
--
-- A fence is at least the server's time in milliseconds, shifted by the six bits that count how
-- often the job was taken. A server that lost its last writes continues from an older record, and
-- must not give a fence that it gave before.
--
-- A job whose record or body cannot be read is put aside, and the lines are read again: it must not
-- keep the jobs behind it from being served.
--
-- All jobs make the same move, so each set is changed once for all of them and not job by job.
-- Removals go first: a server without memory allows them, and after a first write it allows the
-- others too.
local JOB_BATCH, MOST_RECALLED = 1000, 32
local lease = redis.call('ZSCORE', partition .. ':leases', worker)
if not lease or tonumber(lease) <= moment then
    return {moment}
end

local paused = redis.call('SMEMBERS', partition .. ':paused') -- mostly none
for n = 1, #paused do
    if paused[n] == '*' then
        return {moment}
    end
    pass_over(string.sub(paused[n], 2))
end

local wanted = cmsgpack.unpack(wants)
local records_of, bodies_of = partition .. ':s:', partition .. ':b:'
local ids, served, ahead, answer, texts, held, timeouts, nodes, limited, recalled

-- Note picked jobs: member, priority, …, where so many of the same want were picked before.
local function note_picked(picked, before, free)
    for n = 1, #picked, 2 do
        ids[#ids + 1] = string.sub(picked[n], SEQ_LENGTH + 1)
        ahead[#ids] = 2 * before + n > 2 * free
    end
    return before + #picked / 2
end

-- Pick jobs without limits. Answers how many jobs of the want are picked now.
local function choose_plain(want, before, most)
    local picked, lines = pick(want[1], most)
    for n = 1, #lines do
        served[#served + 1] = lines[n]
    end
    return note_picked(picked, before, want[3])
end

local function values_of(kind, first, last)
    local keys = {}
    for n = first, last do
        keys[#keys + 1] = kind .. ids[n]
    end
    return redis.call('MGET', unpack(keys))
end

local function next_fence(fence)
    local grown = math.max(math.floor(fence / 64) + 1, math.floor(server_time / 1000))
    return grown * 64 + math.min(fence % 64 + 1, 63)
end

-- False also for a key that is no hash: whoever needs the steps hears of that, and not the claim.
local function is_short(key)
    local length = redis.pcall('HLEN', key)
    return type(length) == 'number' and length <= MOST_RECALLED
end

local function recall(id)
    local steps, signals = partition .. ':st:' .. id, partition .. ':sg:' .. id
    if is_short(steps) and is_short(signals) then
        recalled[#recalled + 1] = id
        recalled[#recalled + 1] = redis.call('HGETALL', steps)
        recalled[#recalled + 1] = redis.call('HGETALL', signals)
    end
end

local function note_ties(id, ties, is_one_of_few)
    if bit.band(ties, TIE_NODE) ~= 0 then
        nodes[#nodes + 1] = id
    end
    if is_one_of_few and bit.band(ties, TIE_STEPS) ~= 0 then
        recall(id)
    end
end

local function give(n, record, body)
    local id = ids[n]
    if record[TIES] ~= 0 then
        note_ties(id, record[TIES], body)
    end
    record[STATE], record[WORKER], record[CLAIMED_AT] = 'running', worker, moment
    record[FENCE], record[AHEAD] = next_fence(record[FENCE]), ahead[n]
    record[AT] = record[TIMEOUT] and after(record[TIMEOUT])
    if limited then
        limited.give(record)
    end
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

-- Nothing is written yet: an error means that a job has no record or body that can be read.
local function give_all()
    answer, texts, held, timeouts = {string.format('%.0f', moment)}, {}, {}, {}
    nodes, recalled = {}, {}
    local with_bodies = #ids <= tonumber(inline)
    for first = 1, #ids, JOB_BATCH do
        local last = math.min(first + JOB_BATCH - 1, #ids)
        local blobs = values_of(records_of, first, last)
        local bodies = with_bodies and values_of(bodies_of, first, last)
        for n = first, last do
            local at = n - first + 1
            if bodies and not bodies[at] then
                error('no body')
            end
            give(n, unpacked(blobs[at]), bodies and bodies[at])
        end
    end
end

-- Take a job out of its line. It may have no record, so its position is searched for.
local function drop_from_line(id)
    for _, head in ipairs(served) do
        for _, member in ipairs(head.members or redis.call('ZRANGE', head.key, 0, head.taken - 1)) do
            if string.sub(member, SEQ_LENGTH + 1) == id then
                local before = first_of(head.key)
                redis.call('ZREM', head.key, member)
                update_head(head.queue, head.task, before, first_of(head.key))
                tally('ready:' .. head.name, -1)
                head.taken = head.taken - 1
                return
            end
        end
    end
    if limited then
        limited.drop(id)
    end
end

local function drop_broken()
    local dropped = 0
    load(ids)
    for n = 1, #ids do
        if not records[ids[n]] or redis.call('EXISTS', bodies_of .. ids[n]) == 0 then
            drop_from_line(ids[n])
            put_aside(ids[n])
            dropped = dropped + 1
        end
    end
    return dropped > 0
end

local function count_claimed(name, jobs)
    tally('ready:' .. name, -jobs)
    tally('running:' .. name, jobs)
    note_moves('claimed:' .. name, jobs)
end

local function write_claimed()
    take_off(served)
    for first = 1, #texts, 2 * JOB_BATCH do
        local last = math.min(first + 2 * JOB_BATCH - 1, #texts)
        redis.call('MSET', unpack(texts, first, last))
        redis.call('ZADD', partition .. ':held:' .. worker, unpack(held, first, last))
    end
    for first = 1, #timeouts, 2 * JOB_BATCH do
        local last = math.min(first + 2 * JOB_BATCH - 1, #timeouts)
        redis.call('ZADD', partition .. ':timeouts', unpack(timeouts, first, last))
    end
    for n = 1, #served do
        count_claimed(served[n].name, served[n].taken)
    end
    redis.call('SADD', partition .. ':holders', worker)
end

-- `choose_from(want)` picks the jobs of a want. `with_limits` has what else is done to jobs with limits: `begin` before
-- picking, `give` to each record, `drop` to a job that cannot be read, and `take` when jobs are given, which answers how
-- many of each task.
local function claim_jobs(choose_from, with_limits)
    limited = with_limits
    local function choose()
        ids, served, ahead = {}, {}, {}
        if limited then
            limited.begin()
        end
        for _, want in ipairs(wanted) do
            if is_open(want[1]) then
                choose_from(want)
            end
        end
    end

    choose()
    while not pcall(give_all) do
        if not drop_broken() then
            give_all()
        end
        choose()
    end
    local by_name = limited and limited.take() or {}
    if #ids == 0 then
        return {moment}
    end
    write_claimed()
    for name, jobs in pairs(by_name) do
        count_claimed(name, jobs)
    end
    if #nodes > 0 or #recalled > 0 then
        answer[#answer + 1] = {facts_of(nodes, #ids <= tonumber(inline)), recalled}
    end
    return answer
end
