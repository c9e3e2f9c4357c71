-- The first jobs of a queue among the tasks that are known: their lines, merged by priority and then
-- arrival. A line is opened when its first job may be the next to be served; the open ones are kept
-- in a heap. Lines of other tasks are passed over without being read.
-- uses: heads
local MERGED_AT_ONCE = 16
local MOST_AT_ONCE = 256

local known

local function is_known(task)
    if not known then
        known = {}
        for _, name in ipairs(cmsgpack.unpack(tasks)) do
            known[name] = true
        end
    end
    return known[task]
end

-- The lines of a queue that are not empty, in the order of their first jobs.
local function heads_of(queue, limit)
    return {
        key = partition .. ':heads:' .. queue, queue = queue, read = 0, at = 1, chunk = {},
        size = math.min(limit + 1, MERGED_AT_ONCE)
    }
end

-- The next line of a known task: its head's priority and member, and nil when there is none.
local function next_line(heads)
    while true do
        local member = heads.chunk[heads.at]
        if not member then
            if heads.is_short then
                return nil
            end
            local last = heads.read + heads.size - 1
            heads.chunk = redis.call('ZRANGE', heads.key, heads.read, last, 'WITHSCORES')
            heads.is_short = #heads.chunk < 2 * heads.size
            heads.in_all = heads.read + #heads.chunk / 2
            heads.read, heads.at = last + 1, 1
            heads.size = math.min(2 * heads.size, MOST_AT_ONCE)
        else
            local priority = tonumber(heads.chunk[heads.at + 1])
            local task = string.sub(member, SEQ_DIGITS + 1)
            heads.at = heads.at + 2
            if is_known(task) then
                return {queue = heads.queue, task = task, head = member,
                        member = member, priority = priority}
            end
        end
    end
end

-- Stand at the next job of an open line; false when there is none. One job more than `size` is read
-- at once: the one behind those that are served heads the line from then on.
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

local function sift_down(heap)
    local n, size, moved = 1, #heap, heap[1]
    while 2 * n <= size do
        local child = 2 * n
        if child < size and goes_before(heap[child + 1], heap[child]) then
            child = child + 1
        end
        if not goes_before(heap[child], moved) then
            break
        end
        heap[n], n = heap[child], child
    end
    heap[n] = moved
end

local function push(heap, one)
    local n = #heap + 1
    while n > 1 do
        local parent = math.floor(n / 2)
        if not goes_before(one, heap[parent]) then
            break
        end
        heap[n], n = heap[parent], parent
    end
    heap[n] = one
end

local function pop(heap)
    heap[1] = heap[#heap]
    heap[#heap] = nil
    if heap[1] then
        sift_down(heap)
    end
end

local function open(one, size)
    one.name = line(one.queue, one.task)
    one.key = partition .. ':ready:' .. one.name
    one.read, one.taken, one.chunk, one.at = 0, 0, {}, 1
    return step(one, size)
end

-- Who would be served next but for the first of the heap.
local function rival_in(heap, coming)
    local second, third = heap[2], heap[3]
    if third and goes_before(third, second) then
        second = third
    end
    if coming and (not second or goes_before(coming, second)) then
        return coming
    end
    return second
end

-- Serve a line as far as it is read and no rival goes before it. Returns how many are picked by then.
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

-- Returns member, priority, member, priority, … of at most `limit` jobs, and their lines, each with
-- its name and how many of them were `taken`.
local function pick(queue, limit)
    local heads, heap, picked, served, count = heads_of(queue, limit), {}, {}, {}, 0
    local coming = next_line(heads)
    while count < limit and (coming or heap[1]) do
        local best, is_new = heap[1], false
        if coming and (not best or goes_before(coming, best)) then
            best, coming, is_new = coming, next_line(heads), true
        else
            if best.taken == 0 then
                served[#served + 1] = best
            end
            count = serve(best, rival_in(heap, coming), picked, count, limit)
        end
        local is_alone = not coming and #heap < 2
        local size = is_alone and limit - count or math.min(limit - count, MERGED_AT_ONCE)
        if is_new then
            if open(best, size) then
                push(heap, best)
            end
        elseif not step(best, size) then
            pop(heap)
        else
            sift_down(heap)
        end
    end
    if #served == 1 then
        served[1].is_alone = heads.is_short and heads.in_all == 1
    end
    return picked, served
end

-- Take what was picked off its lines, each of which begins with the job that it stands at now. The
-- lines of a queue follow each other.
local function take_off(served)
    local gone, come = {}, {}
    for n = 1, #served do
        local one, following = served[n], served[n + 1]
        redis.call('ZREMRANGEBYRANK', one.key, 0, one.taken - 1)
        if not (one.is_alone and one.member) then
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
