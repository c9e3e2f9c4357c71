-- Picking the first jobs of a queue among the tasks that a worker knows: the lines of those tasks
-- are merged by priority, then arrival. A line is opened (read) when its first job may be the next
-- one to be served. Lines of other tasks are passed over unread.
-- uses: heads
local MERGED_BATCH = 16 -- jobs read at once of a line that has rivals
local HEAD_BATCH = 256 -- entries of `heads` read at once, at most

local known

local function read_tasks()
    known = {}
    for _, name in ipairs(cmsgpack.unpack(tasks)) do
        known[name] = true
    end
end

local function is_known(task)
    if not known then
        read_tasks()
    end
    return known[task]
end

-- Serve no line of this task.
local function pass_over(task)
    if not known then
        read_tasks()
    end
    known[task] = nil
end

-- The next line of a known task, in the order of `heads`. It is not opened yet.
local function next_line(heads)
    while true do
        local at = heads.at
        local entry = heads.chunk[at]
        if entry then
            local task = string.sub(entry, SEQ_LENGTH + 1)
            heads.at = at + 2
            if is_known(task) then
                local name = line(heads.queue, task)
                return {
                    queue = heads.queue, task = task, name = name,
                    key = partition .. ':ready:' .. name, head = entry, member = entry,
                    priority = tonumber(heads.chunk[at + 1]), read = 0, taken = 0, chunk = {}, at = 1
                }
            end
        elseif heads.is_short then
            return nil
        else
            local last = heads.read + heads.size - 1
            heads.chunk = redis.call('ZRANGE', heads.key, heads.read, last, 'WITHSCORES')
            heads.is_short = #heads.chunk < 2 * heads.size
            heads.in_all = heads.read + #heads.chunk / 2
            heads.read, heads.at = last + 1, 1
            heads.size = math.min(2 * heads.size, HEAD_BATCH)
        end
    end
end

-- Go to the next job of a line; false when there is none. One job more than `size` is read at once:
-- behind the served jobs, the line begins with that one.
local function step(one, size)
    local chunk, at = one.chunk, one.at
    if at > #chunk then
        if one.is_short then
            one.member = nil
            return false
        end
        chunk = redis.call('ZRANGE', one.key, one.read, one.read + size, 'WITHSCORES')
        one.is_short = #chunk < 2 * (size + 1)
        one.read, one.chunk, one.at, at = one.read + size + 1, chunk, 1, 1
    end
    one.member, one.score = chunk[at], chunk[at + 1]
    one.priority = tonumber(one.score)
    return one.member ~= nil
end

local function goes_before(one, other)
    if one.priority ~= other.priority then
        return one.priority < other.priority
    end
    return one.member < other.member
end

-- Put an open line in its place among the others. The last of the list is served next.
local function place(open, one)
    local low, high = 1, #open + 1
    while low < high do
        local middle = math.floor((low + high) / 2)
        if goes_before(one, open[middle]) then
            low = middle + 1
        else
            high = middle
        end
    end
    table.insert(open, low, one)
end

-- Serve a line as far as it is read and no rival goes before it. Returns how many jobs are picked
-- now.
local function serve(one, rival, picked, count, limit)
    local chunk, at, before = one.chunk, one.at, count
    repeat
        picked[2 * count + 1], picked[2 * count + 2] = chunk[at], chunk[at + 1]
        count, at = count + 1, at + 2
        if rival and chunk[at] then
            one.member, one.priority = chunk[at], tonumber(chunk[at + 1])
        end
    until count == limit or not chunk[at] or (rival and goes_before(rival, one))
    one.at, one.taken = at, one.taken + count - before
    return count
end

-- Returns member, priority, member, priority, … of at most `limit` jobs, and the served lines, each
-- with its name and the number of jobs `taken` from it.
local function pick(queue, limit)
    local heads = {
        key = partition .. ':heads:' .. queue, queue = queue, read = 0, at = 1, chunk = {},
        size = math.min(limit + 1, MERGED_BATCH)
    }
    local open, picked, served, count = {}, {}, {}, 0
    local coming = next_line(heads)
    while count < limit and (coming or #open > 0) do
        local one = open[#open]
        if coming and (not one or goes_before(coming, one)) then
            one, coming = coming, next_line(heads)
        else
            open[#open] = nil
            if one.taken == 0 then
                served[#served + 1] = one
            end
            local rival = open[#open]
            if coming and (not rival or goes_before(coming, rival)) then
                rival = coming
            end
            count = serve(one, rival, picked, count, limit)
        end
        local is_alone = not coming and #open == 0
        if step(one, is_alone and limit - count or math.min(limit - count, MERGED_BATCH)) then
            place(open, one)
        end
    end
    if #served == 1 then
        served[1].is_alone = heads.is_short and heads.in_all == 1
    end
    return picked, served
end

-- The priority of the first job of a queue, whatever its task; nil if there is none. The entry of a line that is
-- alone may name an earlier job.
local function first_priority(queue)
    local found = redis.call('ZRANGE', partition .. ':heads:' .. queue, 0, 1, 'WITHSCORES')
    if #found == 2 then
        local name = line(queue, string.sub(found[1], SEQ_LENGTH + 1))
        found = first_of(partition .. ':ready:' .. name)
    end
    return tonumber(found[2])
end

-- Take jobs off a line that are not its first ones.
local function take_members_off(one)
    local before = first_of(one.key)
    redis.call('ZREM', one.key, unpack(one.members))
    update_head(one.queue, one.task, before, first_of(one.key))
end

-- Take the picked jobs off their lines. Each line begins now with the job to which it has gone. The
-- lines of one queue stand together in `served`.
local function take_off(served)
    local gone, come = {}, {}
    for n = 1, #served do
        local one, following = served[n], served[n + 1]
        if one.members then
            take_members_off(one)
        else
            redis.call('ZREMRANGEBYRANK', one.key, 0, one.taken - 1)
        end
        if not (one.is_alone and one.member) and one.head then
            gone[#gone + 1] = one.head
        end
        if one.member and not one.is_alone then
            come[#come + 1] = one.score
            come[#come + 1] = head_name(one.member, one.task)
        end
        if #gone > 0 and (not following or following.queue ~= one.queue) then
            local key = partition .. ':heads:' .. one.queue
            redis.call('ZREM', key, unpack(gone))
            if #come > 0 then
                redis.call('ZADD', key, unpack(come))
            end
            gone, come = {}, {}
        end
    end
end
